// The steps of one topic in order, and what the cluster looked like after each of them.

export const MAX_STEPS = 20000;

export function compare(a, b) {
  for (let i = 0; i < 3; i += 1) if (a.order[i] !== b.order[i]) return a.order[i] - b.order[i];
  return 0;
}

/** Takes steps in, each once, sorted by time; the oldest go when there are too many. */
export function addSteps(all, known, more) {
  let added = 0;
  for (const step of more) {
    if (known.has(step.id)) continue;
    known.add(step.id);
    all.push(step);
    added += 1;
  }
  if (added) all.sort(compare);
  while (all.length > MAX_STEPS) known.delete(all.shift().id);
  return added;
}

export function topicsOf(steps) {
  const found = new Map();
  for (const step of steps) if (step.topic && step.topic !== "*") found.set(step.topic, step.at_ms);
  return [...found].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

/** The lanes that the steps need, from the client to the brokers. */
export function lanesOf(steps, brokers) {
  const ids = new Set(brokers.map((id) => `broker-${id}`));
  for (const step of steps) if (step.lane.startsWith("broker-")) ids.add(step.lane);
  const sorted = [...ids].sort((a, b) => Number(a.slice(7)) - Number(b.slice(7)));
  return ["client", "store", "controller", ...sorted];
}

export function laneName(lane) {
  if (lane === "client") return "Client's request";
  if (lane === "store") return "Store";
  if (lane === "controller") return "Controller";
  return `Broker ${lane.slice(7)}`;
}

/** Partitions after the first `count` steps: {number: {state, leader, isr, replicas: {broker: {state, folder}}}} */
export function statesAfter(steps, count) {
  const partitions = new Map();
  const of = (number) => {
    if (!partitions.has(number)) partitions.set(number, { state: "", leader: null, isr: null, replicas: new Map() });
    return partitions.get(number);
  };
  for (const step of steps.slice(0, count))
    for (const change of step.changes ?? []) {
      const partition = of(change.partition);
      if (change.leader !== null && change.leader !== undefined) partition.leader = change.leader;
      if (change.isr) partition.isr = change.isr;
      if (change.what === "partition") {
        if (change.state) partition.state = change.state;
      } else {
        const replica = partition.replicas.get(change.broker) ?? { state: "", folder: "" };
        if (change.what === "replica") replica.state = change.state;
        else replica.folder = change.state;
        partition.replicas.set(change.broker, replica);
      }
    }
  return new Map([...partitions].sort((a, b) => a[0] - b[0]));
}

/** A saved record; throws an Error with words for what is none. */
export function readRecord(text) {
  let record;
  try {
    record = JSON.parse(text);
  } catch {
    throw new Error("This file is no record: it is not JSON.");
  }
  const isStep = (step) => step && typeof step.id === "string" && Array.isArray(step.order) && step.order.length === 3 && step.order.every(Number.isFinite) && Number.isFinite(step.at_ms) && typeof step.lane === "string" && typeof step.title === "string" && typeof step.words === "string" && (step.changes === undefined || Array.isArray(step.changes));
  if (record?.format !== "ottla-life" || record.version !== 1 || !Array.isArray(record.life?.steps)) throw new Error("This file is no record of the life of topics: the page saves them with “Save a record”.");
  if (!record.life.steps.every(isStep)) throw new Error("This record has steps that cannot be read.");
  if (record.life.steps.length > MAX_STEPS) throw new Error("This record has too many steps.");
  return record;
}

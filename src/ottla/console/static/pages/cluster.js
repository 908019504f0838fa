import { fill, h, link, setText } from "../lib/dom.js";
import { count, plural, rate } from "../lib/format.js";
import { live } from "../lib/live.js";
import { commandLine, problemPlace } from "../lib/notices.js";
import { sparkline } from "../lib/sparkline.js";

export const title = "Cluster";
export const question = "Is all well?";

const WITHOUT_RACK = "without a rack";
const BY_LOG_SIZES = "Apache Kafka's brokers count for nobody over the protocol: this is how fast their logs grow.";
const NOT_TOLD = "Apache Kafka's brokers do not tell over the protocol how much they send.";

export function mount(root, { signal, side }) {
  const problem = problemPlace();
  const verdict = h("section", { "aria-label": "What is wrong", class: "findings" }, h("p", { class: "muted" }, "Asking the cluster…"));
  const numbers = stats();
  const racks = h("div", { class: "racks" });
  const brokers = new Map();
  const who = h("span", { class: "muted" });
  fill(side, who);
  fill(root, problem.node, h("div", { class: "stack" }, verdict, numbers.node, racks));

  const show = (cluster, isWhole) => {
    drawFindings(verdict, cluster);
    numbers.show(cluster);
    setText(who, controller(cluster));
    drawBrokers(racks, brokers, cluster, isWhole);
  };
  live("cluster", {}, {
    signal,
    problem: (error) => problem.say(error),
    mended: () => problem.say(null),
    whole: (cluster) => show(cluster, true),
    news: (cluster) => show(cluster, false),
  });
}

function controller(cluster) {
  if (cluster.is_kraft) return "KRaft: brokers do not say who the controller is";
  if (cluster.controller === null) return "No controller";
  const epoch = cluster.controller_epoch === null ? "" : `, epoch ${cluster.controller_epoch}`;
  return `Controller: broker ${cluster.controller}${epoch}`;
}

function drawFindings(place, cluster) {
  const found = JSON.stringify([cluster.findings, cluster.brokers.length, cluster.partitions]);
  if (place.dataset.drawn === found) return; // what a reader selects in it stays selected
  place.dataset.drawn = found;
  const isWell = !cluster.findings.some((one) => one.kind !== "info");
  fill(
    place,
    isWell ? h("div", { class: "notice good", role: "status" }, h("div", { class: "notice-words" }, allWell(cluster))) : null,
    cluster.findings.map(findingNode),
  );
}

function allWell(cluster) {
  if (!cluster.partitions) return `All is well: ${plural(cluster.brokers.length, "broker")}, no topics yet.`;
  return `All is well: ${plural(cluster.brokers.length, "broker")}, ${plural(cluster.partitions, "partition")}, every one with a leader and all its replicas in sync.`;
}

function findingNode(one) {
  const where = one.broker !== null ? `/placement?only=wrong&broker=${one.broker}` : one.shows ? "/placement?only=wrong" : null;
  return h(
    "div",
    { class: `notice ${one.kind}`, role: one.kind === "bad" ? "alert" : "status" },
    h("div", { class: "row" }, h("div", { class: "notice-words grow" }, one.words), where === null ? null : link(where, "Show them")),
    one.commands.map(commandLine),
  );
}

function stats() {
  const rows = [
    ["Brokers alive", (c) => `${count(c.brokers.filter((b) => b.is_alive).length)} of ${count(c.brokers.length)}`, (c) => c.brokers.some((b) => !b.is_alive)],
    ["Topics", (c) => count(c.topics), () => false],
    ["Partitions", (c) => count(c.partitions), () => false],
    ["Without a leader", (c) => count(c.without_leader), (c) => c.without_leader > 0],
    ["Under min ISR", (c) => count(c.under_min_isr), (c) => c.under_min_isr > 0],
    ["Under-replicated", (c) => count(c.under_replicated), (c) => c.under_replicated > 0],
    ["Bytes in", (c) => rate(total(c, "in_rate")), () => false],
    ["Bytes out", (c) => rate(total(c, "out_rate")), () => false],
  ].map(([name, text, isBad]) => ({ text, isBad, value: h("dd", {}, "–"), name }));
  const node = h("dl", { class: "stats cluster-stats" }, ...rows.map((row) => h("div", { class: "stat" }, h("dt", {}, row.name), row.value)));
  return {
    node,
    show(cluster) {
      for (const row of rows) {
        setText(row.value, row.text(cluster));
        row.value.classList.toggle("bad-text", row.isBad(cluster));
      }
    },
  };
}

function total(cluster, name) {
  const known = cluster.brokers.map((broker) => broker[name]).filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}

function drawBrokers(place, known, cluster, isWhole) {
  const layout = JSON.stringify(cluster.brokers.map((b) => [b.id, b.rack]));
  for (const broker of cluster.brokers) if (!known.has(broker.id)) known.set(broker.id, brokerCard(broker.id));
  if (place.dataset.layout !== layout) {
    place.dataset.layout = layout;
    fill(place, ...byRack(cluster.brokers).map(([rack, brokers]) => rackNode(rack, brokers, known)));
  }
  for (const broker of cluster.brokers) known.get(broker.id).show(broker, cluster, isWhole);
}

function rackNode(rack, brokers, known) {
  return h("section", { class: "rack", "aria-label": rack === "" ? "Brokers" : `Rack ${rack}`, style: { flexGrow: String(brokers.length) } }, h("h2", {}, rack === "" ? "Brokers" : rack === WITHOUT_RACK ? "Without a rack" : `Rack ${rack}`), h("div", { class: "cards broker-cards" }, ...brokers.map((b) => known.get(b.id).node)));
}

/** [[rack, brokers]]; one unnamed group where there are no racks at all. */
function byRack(brokers) {
  if (!brokers.some((broker) => broker.rack !== null)) return [["", brokers]];
  const groups = new Map();
  for (const broker of brokers) {
    const rack = broker.rack ?? WITHOUT_RACK;
    if (!groups.has(rack)) groups.set(rack, []);
    groups.get(rack).push(broker);
  }
  return [...groups].sort(([a], [b]) => (a === WITHOUT_RACK) - (b === WITHOUT_RACK) || a.localeCompare(b, "en", { numeric: true }));
}

function brokerCard(id) {
  const address = h("div", { class: "muted mono small clip" });
  const badges = h("div", { class: "row" });
  const leaders = h("dd", { class: "num" });
  const replicas = h("dd", { class: "num" });
  const flows = { in: flow("Bytes in", id), out: flow("Bytes out", id) };
  const node = h(
    "article",
    { class: "card broker-card", "aria-label": `Broker ${id}` },
    h("div", { class: "row broker-head" }, h("h3", { class: "grow" }, link(`/placement?broker=${id}`, `Broker ${id}`)), badges),
    address,
    flows.in.node,
    flows.out.node,
    h("dl", { class: "broker-counts" }, h("div", {}, h("dt", {}, "Leaders"), leaders), h("div", {}, h("dt", {}, "Replicas"), replicas)),
  );
  return {
    node,
    show(broker, cluster, isWhole) {
      const words = [
        !broker.is_alive ? ["bad", "down"] : broker.is_silent ? ["warn", "no answer"] : ["good", "alive"],
        cluster.controller === broker.id ? ["accent", "controller"] : null,
      ].filter(Boolean);
      const wanted = JSON.stringify(words);
      if (badges.dataset.words !== wanted) {
        badges.dataset.words = wanted;
        fill(badges, ...words.map(([kind, word]) => h("span", { class: `badge ${kind}` }, word)));
      }
      node.classList.toggle("is-down", !broker.is_alive);
      setText(address, broker.host === null ? "not registered" : `${broker.host}:${broker.port}`);
      setText(leaders, count(broker.leaders));
      setText(replicas, count(broker.replicas));
      const history = isWhole ? cluster.history.find((one) => one.id === broker.id) : null;
      const slow = cluster.rates_by === "log sizes";
      flows.in.show(broker.in_rate, history?.in_rates, slow ? BY_LOG_SIZES : "");
      flows.out.show(broker.out_rate, history?.out_rates, slow ? NOT_TOLD : "");
    },
  };
}

function flow(name, id) {
  const value = h("span", { class: "num" });
  const place = h("div", { class: "flow-line" });
  let line = null;
  const begin = () => {
    line = sparkline({ label: `${name} of broker ${id}, the last two minutes` });
    fill(place, line.node);
  };
  begin();
  const node = h("div", { class: "flow" }, h("span", { class: "muted small" }, name), place, value);
  return {
    node,
    show(now, history, reason) {
      if (history) {
        begin();
        for (const old of history) line.push(old);
      } else line.push(now);
      setText(value, rate(now));
      if (node.title !== reason) node.title = reason;
    },
  };
}

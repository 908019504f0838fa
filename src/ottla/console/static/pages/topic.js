import { get, preview } from "../lib/api.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { fill, h, link, path, setText } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { bytes, count, duration, plural } from "../lib/format.js";
import { live } from "../lib/live.js";
import { empty, notice, problemPlace } from "../lib/notices.js";
import { navigate } from "../lib/router.js";
import { dataTable } from "../lib/table.js";
import { rename, resize, resizesPlace } from "./topic_changes.js";
import { showConfigs } from "./topic_configs.js";

export const title = "Topic";
export const heading = (params) => params.name;
export const question = "What is in it, and where?";

const NUMBERS_EVERY_MS = 5000;
const DELETION_EVERY_MS = 400;
const SHOWN_NEW_PARTITIONS = 50;
const NAMED = 12;

const TABS = [
  { name: "", label: "Partitions" },
  { name: "configs", label: "Configs" },
  { name: "groups", label: "Groups" },
];

export async function mount(root, { params, query, signal, side }) {
  const { name } = params;
  if (query.has("deleting")) {
    await showDeletion(root, name, query.get("deleting"), signal);
    return;
  }
  const base = path`/topics/${name}`;
  const tab = query.get("tab") ?? "";
  const place = h("div", {});
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the topic" }, ...TABS.map((one) => h("a", { href: one.name ? `${base}?tab=${one.name}` : base, "aria-current": one.name === tab ? "page" : null }, one.label)));
  fill(
    side,
    link(path`/messages/${name}`, "Messages"),
    link(path`/life/${name}`, "Life"),
    link(path`/placement?topic=${name}`, "Placement"),
    h("button", { class: "button", type: "button", onclick: () => expand(name, signal) }, "Add partitions…"),
    h("button", { class: "button", type: "button", onclick: () => resize(name, signal) }, "Resize…"),
    h("button", { class: "button", type: "button", onclick: () => rename(name, signal) }, "Rename…"),
    h("button", { class: "button danger-quiet", type: "button", onclick: () => remove(name, signal) }, "Delete…"),
  );
  fill(root, resizesPlace(signal, name), tabs, place);
  if (tab === "configs") await showConfigs(place, name, signal);
  else if (tab === "groups") await showGroups(place, name, signal);
  else showPartitions(place, name, signal);
}

function showPartitions(root, name, signal) {
  const problem = problemPlace();
  const wrong = h("div", { class: "stack topic-wrong" });
  const stats = statistics(["Partitions", "Replicas each", "Records", "Size of all replicas"]);
  const notes = h("div", {});
  const id = h("p", { class: "muted small topic-id" });
  let numbers = new Map();
  let topic = null;
  let timer = null;
  const of = (row) => numbers.get(row.partition);
  const records = (row) => (of(row)?.end != null && of(row)?.begin != null ? of(row).end - of(row).begin : null);
  const table = dataTable({
    label: "Partitions",
    key: (row) => row.partition,
    empty: "Asking the cluster…",
    columns: [
      { name: "partition", title: "Partition", width: "110px", numeric: true, by: (row) => row.partition, cell: (row) => row.partition },
      { name: "leader", title: "Leader", width: "120px", numeric: true, by: (row) => row.leader, cell: leaderCell },
      { name: "replicas", title: "Replicas", cell: replicasCell },
      { name: "in_sync", title: "In sync", width: "130px", by: (row) => row.in_sync.length - row.replicas.length, cell: (row) => row.in_sync.join(", ") || "none" },
      { name: "begin", title: "Begins at", width: "115px", numeric: true, by: (row) => of(row)?.begin, cell: (row) => count(of(row)?.begin) },
      { name: "end", title: "Ends at", width: "115px", numeric: true, by: (row) => of(row)?.end, cell: (row) => count(of(row)?.end) },
      { name: "records", title: "Records", width: "115px", numeric: true, by: records, cell: (row) => count(records(row)) },
      { name: "size", title: "Size", width: "95px", numeric: true, by: (row) => of(row)?.size, cell: (row) => bytes(of(row)?.size) },
    ],
  });
  const sum = (values) => (values.length && values.every((v) => v !== null && v !== undefined) ? values.reduce((a, b) => a + b, 0) : null);
  const drawStats = () => {
    stats.set(0, count(topic.partitions.length));
    const factors = [...new Set(topic.partitions.map((p) => p.replicas.length))].sort((a, b) => a - b);
    stats.set(1, factors.length > 1 ? `${factors[0]} to ${factors.at(-1)}` : count(factors[0]));
    stats.set(2, count(sum(topic.partitions.map(records))));
    stats.set(3, bytes(numbers.size ? sum([...numbers.values()].map((n) => n.all_replicas_size)) : null));
  };
  const load = async () => {
    try {
      const answer = await get(path`/topics/${name}/numbers`, {}, { signal });
      numbers = new Map(answer.partitions.map((one) => [one.partition, one]));
      fill(notes, answer.problems.length ? notice("warn", `Offsets and sizes are not complete. ${answer.problems.join(" ")}`) : null);
      table.redraw();
      drawStats();
    } catch (error) {
      if (error.name === "AbortError") return;
      // That the topic is gone, or the cluster, is said on top already.
    }
    if (!signal.aborted) timer = setTimeout(load, NUMBERS_EVERY_MS);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  const all = h("div", { hidden: true }, wrong, stats.node, id, notes, table.node);
  const asking = h("p", { class: "muted" }, "Asking the cluster…");
  fill(root, problem.node, asking, all);
  live("topic", { name }, {
    signal,
    problem: (error) => {
      asking.hidden = true;
      problem.say(error.code === "UNKNOWN_TOPIC_OR_PARTITION" ? { ...error, message: topic === null ? `There is no topic ${name}.` : `${name} is not there any more.` } : error);
    },
    mended: () => problem.say(null),
    whole: (value) => {
      const isFirst = topic === null;
      asking.hidden = true;
      all.hidden = false;
      topic = value;
      fill(wrong, ...whatIsWrong(value));
      setText(id, [value.topic_id ? `Id ${value.topic_id}` : null, value.internal ? "internal to Kafka" : null].filter(Boolean).join(", "));
      table.setEmpty("No partitions.");
      table.setRows(value.partitions);
      drawStats();
      if (isFirst) load();
    },
  });
}

function statistics(names) {
  const values = names.map(() => h("dd", {}, "–"));
  const node = h("dl", { class: "stats" }, ...names.map((one, i) => h("div", { class: "stat" }, h("dt", {}, one), values[i])));
  return { node, set: (i, text) => setText(values[i], text) };
}

/** Partition numbers in words, not too many of them. */
function named(partitions) {
  const some = partitions.slice(0, NAMED).map((p) => p.partition).join(", ");
  return partitions.length > NAMED ? `${some} and ${count(partitions.length - NAMED)} more` : some;
}

function whatIsWrong(topic) {
  const alive = new Set(topic.brokers.map((one) => one.id));
  const leaderless = topic.partitions.filter((p) => p.leader < 0);
  const lagging = topic.partitions.filter((p) => p.leader >= 0 && p.in_sync.length < p.replicas.length && !p.adding.length);
  const moving = topic.partitions.filter((p) => p.adding.length || p.removing.length);
  const away = [...new Set(topic.partitions.flatMap((p) => p.replicas))].filter((id) => !alive.has(id)).sort((a, b) => a - b);
  const because = away.length ? ` ${away.length === 1 ? "Broker" : "Brokers"} ${away.join(", ")} ${away.length === 1 ? "is" : "are"} not there.` : "";
  return [
    leaderless.length ? notice("bad", `${leaderless.length === 1 ? "Partition" : "Partitions"} ${named(leaderless)} ${leaderless.length === 1 ? "has" : "have"} no leader: nothing can be written or read.${because}`) : null,
    lagging.length ? notice("warn", `${lagging.length === 1 ? "Partition" : "Partitions"} ${named(lagging)} ${lagging.length === 1 ? "is" : "are"} under-replicated.${because}`) : null,
    moving.length ? notice("info", `${plural(moving.length, "partition is", "partitions are")} being moved: ${named(moving)}.`) : null,
  ];
}

function leaderCell(row) {
  return row.leader < 0 ? h("span", { class: "badge bad" }, "nobody") : String(row.leader);
}

function replicasCell(row) {
  const inSync = new Set(row.in_sync);
  const offline = new Set(row.offline);
  const adding = new Set(row.adding);
  const removing = new Set(row.removing);
  return row.replicas.map((id) => {
    const state = adding.has(id) ? "being added" : removing.has(id) ? "being removed" : offline.has(id) ? "offline" : inSync.has(id) ? null : "lagging";
    return h("span", { class: `replica-word ${state === null ? "" : state === "offline" ? "bad-text" : "warn-text"}` }, state === null ? String(id) : `${id} ${state}`);
  });
}

async function showGroups(root, name, signal) {
  fill(root, h("p", { class: "muted", role: "status" }, "Asking all groups…"));
  const problem = problemPlace();
  let answer;
  try {
    answer = await get(path`/topics/${name}/groups`, {}, { signal });
  } catch (error) {
    if (error.name === "AbortError") return;
    problem.say(error);
    fill(root, problem.node);
    return;
  }
  const hidden = answer.hidden ? notice("warn", `${plural(answer.hidden, "group")} could not be looked into.`) : null;
  if (!answer.groups.length) {
    fill(root, hidden, empty(`No group has read ${name}.`, h("p", { class: "small" }, `${plural(answer.looked_at, "group")} asked.`)));
    return;
  }
  const table = dataTable({
    label: "Groups",
    key: (row) => row.group,
    onRow: (row) => navigate(path`/groups/${row.group}`),
    columns: [
      { name: "group", title: "Group", by: (row) => row.group, cell: (row) => link(path`/groups/${row.group}`, row.group) },
      { name: "state", title: "State", width: "180px", by: (row) => row.state, cell: (row) => row.state },
      { name: "members", title: "Members", width: "110px", numeric: true, by: (row) => row.members, cell: (row) => count(row.members) },
      { name: "committed", title: "Partitions committed", width: "190px", numeric: true, by: (row) => row.committed, cell: (row) => count(row.committed) },
      { name: "lag", title: "Lag", width: "130px", numeric: true, by: (row) => row.lag, cell: (row) => count(row.lag) },
    ],
  });
  fill(root, hidden, table.node);
  table.setRows(answer.groups);
}

function expand(name, signal) {
  return modal(`More partitions for ${name}`, (close) => {
    const total = field({ name: "total", label: "Partitions in all", type: "number", attributes: { min: 1, step: 1, required: true } });
    const exact = field({ name: "assignment", label: "Send the placement along that is shown", type: "checkbox", help: "Otherwise the cluster places them: by the same rule, but for Apache Kafka in KRaft mode." });
    const problem = problemPlace();
    const go = h("button", { class: "button primary", type: "submit" }, "See what happens…");
    const form = h("form", { novalidate: true }, total.node, exact.node, problem.node, h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Cancel"), go));
    get(path`/topics/${name}`, {}, { signal }).then(
      (topic) => {
        if (total.input.value !== "") return;
        total.input.value = String(topic.partitions.length + 1);
        // Whoever is about to type a number types it in place of this one, not behind it.
        if (document.activeElement === total.input) total.input.select();
      },
      () => {},
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.say(null);
      for (const one of [total, exact]) one.setError(null);
      if (total.value() === null || !Number.isInteger(total.value())) return total.setError("A whole number.");
      go.disabled = true;
      const where = path`/topics/${name}/partitions`;
      try {
        const body = { total: total.value() };
        if (exact.value()) body.assignment = (await preview("POST", where, body)).preview.partitions.map((p) => p.replicas);
        const done = await confirmWrite({ title: `Give ${name} ${count(body.total)} partitions`, method: "POST", path: where, body, verb: "Add partitions", describe: (plan) => describeExpansion(plan, exact.value()) });
        if (done) close(done);
      } catch (error) {
        if (!showAtField([total, exact], error)) problem.say(error);
      } finally {
        go.disabled = false;
      }
    });
    setTimeout(() => total.input.select());
    return form;
  });
}

function describeExpansion(plan, isExact) {
  const some = plan.partitions.slice(0, SHOWN_NEW_PARTITIONS);
  const rows = some.map((p) => h("tr", {}, h("td", { class: "num" }, p.partition), h("td", {}, p.replicas.join(", "))));
  const more = plan.partitions.length - some.length;
  return [
    notice("warn", "Records with a key may go to another partition from now on: whoever counts on all records of a key being in one partition, in order, should know. It cannot be undone."),
    h("p", { class: "spaced" }, `From ${plural(plan.present, "partition")} to ${count(plan.present + plan.partitions.length)}. ${isExact ? "The new ones go to" : "By Kafka's rule the new ones go to"}:`),
    h("div", { class: "draw-box small-box", tabindex: "0", role: "region", "aria-label": "New partitions" }, h("table", { class: "topic-table" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "num" }, "Partition"), h("th", { scope: "col" }, "Brokers, the preferred leader first"))), h("tbody", {}, rows))),
    more > 0 ? h("p", { class: "muted small" }, `And ${plural(more, "more partition")}.`) : null,
  ];
}

async function remove(name, signal) {
  try {
    const done = await confirmWrite({
      title: `Delete ${name}`,
      method: "DELETE",
      path: path`/topics/${name}`,
      verb: "Delete",
      danger: true,
      typed: name,
      describe: (doomed) => h("p", {}, `${plural(doomed.partitions, "partition")} with ${bytes(doomed.bytes)} on ${plural(doomed.brokers.length, "broker")} will be ${doomed.kept_ms ? `in the trash, and can be brought back for ${duration(doomed.kept_ms)}` : "gone for good"}.`),
    });
    if (!done || signal.aborted) return;
    navigate(done.kept_ms ? "/deleted-topics" : `${path`/topics/${name}`}?deleting=${done.brokers.join(",")}`, { replace: true });
  } catch (error) {
    await modal("It cannot be deleted", (close) => [notice("bad", error.message), h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Close"))]);
  }
}

async function showDeletion(root, name, brokers, signal) {
  const problem = problemPlace();
  const words = h("p", { role: "status", class: "deletion-words" }, "Asking all brokers…");
  const list = h("ul", { class: "deletion" });
  const bar = h("progress", { class: "wide", "aria-label": "Brokers that have nothing of it" });
  fill(root, problem.node, h("div", { class: "card" }, h("h2", {}, "Deletion"), words, bar, list), h("p", { class: "spaced" }, link("/topics", "All topics")));
  while (!signal.aborted) {
    try {
      const found = await get(path`/topics/${name}/deletion`, { brokers }, { signal });
      problem.say(null);
      const clear = found.brokers.filter((one) => one.answers && !one.in_metadata && !one.folders).length;
      bar.max = Math.max(1, found.brokers.length);
      bar.value = found.is_over ? bar.max : clear;
      fill(list, ...found.brokers.map((one) => h("li", {}, h("strong", {}, `Broker ${one.broker} `), remainsInWords(one))));
      if (found.is_over) {
        setText(words, `${name} is gone: no broker knows it, and no broker has a folder of it.`);
        return;
      }
      setText(words, found.brokers.some((one) => !one.answers) ? "Not over: a broker that is not there may still have folders; they go when it is back." : "Under way…");
    } catch (error) {
      if (error.name === "AbortError") return;
      problem.say(error);
    }
    await new Promise((resolve) => setTimeout(resolve, DELETION_EVERY_MS));
  }
}

function remainsInWords(one) {
  if (!one.answers) return h("span", { class: "warn-text" }, "does not answer");
  const parts = [one.folders ? `has ${plural(one.folders, "folder")} with ${bytes(one.bytes)}` : null, one.in_metadata ? "still knows the topic" : null].filter(Boolean);
  return parts.length ? parts.join(", ") : h("span", { class: "good-text" }, "has nothing of it");
}

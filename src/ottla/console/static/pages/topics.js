import { get } from "../lib/api.js";
import { debounced, fill, h, link, path } from "../lib/dom.js";
import { field } from "../lib/form.js";
import { bytes, count, plural } from "../lib/format.js";
import { live } from "../lib/live.js";
import { notice, problemPlace } from "../lib/notices.js";
import { keepInAddress, navigate } from "../lib/router.js";
import { dataTable } from "../lib/table.js";
import { resizesPlace } from "./topic_changes.js";

export const title = "Topics";
export const question = "What is there?";

const SIZES_EVERY_MS = 30_000;
// More partitions than this are counted only when the reader asks: it is work for the brokers.
const COUNTED_UNASKED = 10_000;

const SHOW = [
  { value: "", label: "All topics" },
  { value: "under-replicated", label: "Under-replicated" },
  { value: "without-leader", label: "Without a leader" },
];

export function mount(root, { query, signal, side }) {
  const topics = new Map();
  let brokers = [];
  let sizes = null;
  let records = null;
  let isFirst = true;
  const wanted = {
    q: query.get("q") ?? "",
    show: query.get("show") ?? "",
    broker: query.get("broker") ?? "",
    internal: query.get("internal") === "yes",
  };

  const problem = problemPlace();
  const search = field({ name: "q", label: "Search", type: "search", value: wanted.q, attributes: { placeholder: "Part of a name" } });
  const show = field({ name: "show", label: "Show", type: "select", options: SHOW, value: wanted.show });
  const broker = field({ name: "broker", label: "On broker", type: "select", options: [{ value: "", label: "Any" }], value: "" });
  const internal = field({ name: "internal", label: "Internal topics", type: "checkbox", value: wanted.internal });
  const summary = h("p", { class: "muted list-summary", role: "status" }, "Asking the cluster…");
  const count_records = h("button", { class: "button small", type: "button", hidden: true, onclick: () => loadRecords() }, "Count records");
  const notes = h("div", {});

  const table = dataTable({
    label: "Topics",
    key: (row) => row.name,
    empty: "Asking the cluster…",
    sort: query.get("sort") ? { name: query.get("sort"), descending: query.get("order") === "down" } : { name: "name", descending: false },
    onSort: (name, descending) => keepInAddress({ sort: name === "name" && !descending ? null : name, order: descending ? "down" : null }),
    onRow: (row) => navigate(path`/topics/${row.name}`),
    columns: [
      { name: "name", title: "Name", by: (row) => row.name, cell: nameCell },
      { name: "health", title: "Health", width: "170px", by: (row) => -(row.without_leader * 1e6 + row.under_replicated), cell: healthCell },
      { name: "partitions", title: "Partitions", width: "110px", numeric: true, by: (row) => row.partitions, cell: (row) => count(row.partitions) },
      { name: "replication", title: "Replicas", width: "105px", numeric: true, by: (row) => row.replication_factor, cell: (row) => count(row.replication_factor) },
      { name: "records", title: "Records", width: "130px", numeric: true, by: (row) => records?.[row.name] ?? (records ? 0 : null), cell: (row) => (records ? count(records[row.name] ?? 0) : "–") },
      { name: "size", title: "Size", width: "110px", numeric: true, by: (row) => sizes?.[row.name] ?? (sizes ? 0 : null), cell: (row) => (sizes ? bytes(sizes[row.name] ?? 0) : "–") },
    ],
  });

  function refresh() {
    const text = wanted.q.trim().toLowerCase();
    const id = wanted.broker === "" ? null : Number(wanted.broker);
    const rows = [];
    let partitions = 0;
    let hidden = 0;
    for (const row of topics.values()) {
      if (row.internal && !wanted.internal) {
        hidden += 1;
        continue;
      }
      if (text && !row.name.toLowerCase().includes(text)) continue;
      if (wanted.show === "under-replicated" && !row.under_replicated) continue;
      if (wanted.show === "without-leader" && !row.without_leader) continue;
      if (id !== null && !row.brokers.includes(id)) continue;
      rows.push(row);
      partitions += row.partitions;
    }
    table.setRows(rows);
    const isFiltered = text || wanted.show || id !== null;
    table.setEmpty(isFiltered ? "No topic is like that." : "There are no topics yet: create one.");
    const others = hidden ? `; ${plural(hidden, "internal topic")} not shown` : "";
    summary.textContent = `${plural(rows.length, "topic")}, ${plural(partitions, "partition")}${others}`;
  }

  function drawBrokers() {
    const ids = new Map(brokers.map((one) => [one.id, one.rack === null ? `${one.id}` : `${one.id} (${one.rack})`]));
    for (const row of topics.values()) for (const id of row.brokers) if (!ids.has(id)) ids.set(id, `${id} (not there)`);
    if (wanted.broker !== "" && !ids.has(Number(wanted.broker))) ids.set(Number(wanted.broker), wanted.broker);
    const sorted = [...ids].sort(([a], [b]) => a - b);
    const options = [["", "Any"], ...sorted];
    if (broker.input.options.length === options.length && options.every(([, label], i) => broker.input.options[i].textContent === label)) return;
    fill(broker.input, ...options.map(([value, label]) => h("option", { value }, label)));
    broker.input.value = wanted.broker;
  }

  async function loadSizes() {
    try {
      const answer = await get("/topic-sizes", {}, { signal });
      sizes = answer.bytes;
      fill(notes, answer.problems.length ? notice("warn", `Sizes are not complete. ${answer.problems.join(" ")}`) : null);
      table.redraw();
    } catch (error) {
      if (error.name !== "AbortError") fill(notes, notice("warn", `Sizes are not known: ${error.message}`));
    }
  }

  async function loadRecords() {
    count_records.disabled = true;
    try {
      records = (await get("/topic-records", {}, { signal })).records;
      table.redraw();
    } catch (error) {
      if (error.name !== "AbortError") problem.say(error);
    } finally {
      count_records.disabled = false;
    }
  }

  function loadNumbers() {
    loadSizes();
    const partitions = [...topics.values()].reduce((sum, row) => sum + row.partitions, 0);
    if (partitions <= COUNTED_UNASKED) loadRecords();
    else count_records.hidden = false;
  }

  function take(news, isWhole) {
    if (isWhole) topics.clear();
    for (const row of news.topics) topics.set(row.name, row);
    for (const name of news.gone) topics.delete(name);
    brokers = news.brokers;
    drawBrokers();
    refresh();
    if (!isFirst) return;
    isFirst = false;
    // After the list is on the screen.
    requestAnimationFrame(() => setTimeout(loadNumbers));
    const timer = setInterval(loadNumbers, SIZES_EVERY_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
  }

  function change(values) {
    Object.assign(wanted, values);
    keepInAddress({ q: wanted.q, show: wanted.show, broker: wanted.broker, internal: wanted.internal ? "yes" : null });
    table.toTop();
    refresh();
  }
  search.input.addEventListener("input", debounced(120, () => signal.aborted || change({ q: search.value() })));
  show.input.addEventListener("change", () => change({ show: show.value() }));
  broker.input.addEventListener("change", () => change({ broker: broker.value() }));
  internal.input.addEventListener("change", () => change({ internal: internal.value() }));

  fill(side, link("/deleted-topics", "Deleted topics"), h("a", { class: "button primary", href: "/create-topic" }, "Create topic"));
  const resizes = resizesPlace(signal);
  fill(root, problem.node, resizes, h("div", { class: "filters" }, search.node, show.node, broker.node, internal.node), h("div", { class: "row list-head" }, summary, count_records), notes, table.node);
  live("topics", {}, {
    signal,
    problem: (error) => problem.say(error),
    mended: () => problem.say(null),
    whole: (value) => take(value, true),
    news: (value) => take(value, false),
  });
}

function nameCell(row) {
  return [link(path`/topics/${row.name}`, row.name), row.internal ? h("span", { class: "badge beside" }, "internal") : null];
}

function healthCell(row) {
  if (row.without_leader) return h("span", { class: "badge bad", title: plural(row.without_leader, "partition has", "partitions have") + " no leader" }, `${count(row.without_leader)} without leader`);
  if (row.under_replicated) return h("span", { class: "badge warn" }, `${count(row.under_replicated)} under-replicated`);
  return h("span", { class: "muted" }, "well");
}

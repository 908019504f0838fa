import { get } from "../lib/api.js";
import { fileLink, visible } from "../lib/bytes.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { fill, h, path, setText } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { count, plural } from "../lib/format.js";
import { lineChart } from "../lib/linechart.js";
import { live } from "../lib/live.js";
import { empty, failure, notice, problemPlace } from "../lib/notices.js";
import { keepInAddress, navigate } from "../lib/router.js";
import { sparkline } from "../lib/sparkline.js";
import { dataTable } from "../lib/table.js";

export const title = "Groups";
export const question = "Who reads what, and how far behind?";

const POINTS = 90;
const STEP_MS = 2000;
const AGAIN_MS = 5000;
const MOST_AT_ONCE = 50;
const ALL_UP_TO = 100;
const STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn" };

export function mount(root, context) {
  const id = context.params.id ?? context.query.get("group");
  return id === null || id === undefined ? mountList(root, context) : mountGroup(root, id, context);
}

/** Ids may be anything; addresses lose "." and "..". */
export function groupHref(id) {
  return ["", ".", ".."].includes(id) ? `/groups?group=${encodeURIComponent(id)}` : path`/groups/${id}`;
}

function shownId(id) {
  return id === "" ? h("span", { class: "null" }, "empty name") : h("span", { class: "foreign" }, visible(id));
}

function stateBadge(state) {
  return h("span", { class: `badge ${STATES[state] ?? ""}` }, state || "–");
}

// ---- all groups

function mountList(root, { signal, query }) {
  const problem = problemPlace();
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search groups", value: query.get("q") ?? "" });
  const total = h("span", { class: "muted", role: "status" });
  const known = summaryLoader(signal, () => rows.length <= ALL_UP_TO && table.setRows(rows));
  let groups = null;
  let rows = [];
  const table = dataTable({
    label: "Groups",
    key: (group) => group.id,
    empty: "No group has such a name.",
    onRow: (group) => navigate(groupHref(group.id)),
    columns: [
      { name: "id", title: "Group", cell: (g) => h("a", { href: groupHref(g.id), class: "clip" }, shownId(g.id)), by: (g) => g.id },
      { name: "state", title: "State", cell: (g) => stateBadge(g.state), by: (g) => g.state, width: "150px" },
      { name: "lag", title: "Lag", numeric: true, cell: (g) => known.cell(g.id, "lag"), by: (g) => known.value(g.id, "lag"), width: "130px" },
      { name: "members", title: "Members", numeric: true, cell: (g) => known.cell(g.id, "members"), by: (g) => known.value(g.id, "members"), width: "110px" },
      { name: "type", title: "Type", cell: (g) => g.type, by: (g) => g.type, width: "110px" },
    ],
    sort: { name: query.get("sort") ?? "id", descending: query.get("desc") === "true" },
    onSort: (name, descending) => {
      keepInAddress({ sort: name === "id" ? null : name, desc: descending ? "true" : null });
      // Sorting by what is not known yet would deceive: with few groups all are asked for.
      if (rows.length <= ALL_UP_TO) known.want(rows.map((g) => g.id));
    },
  });
  const show = () => {
    keepInAddress({ q: search.value });
    const wanted = search.value.trim().toLowerCase();
    rows = groups.filter((group) => group.id.toLowerCase().includes(wanted));
    if (rows.length <= ALL_UP_TO) known.want(rows.map((g) => g.id));
    setText(total, rows.length === groups.length ? plural(groups.length, "group") : `${count(rows.length)} of ${plural(groups.length, "group")}`);
    table.setRows(rows);
  };
  const place = h("div", {}, h("p", { class: "muted" }, "Asking the cluster…"));
  fill(root, problem.node, place);
  search.addEventListener("input", () => groups && show());
  live("groups", {}, {
    signal,
    problem: (error) => problem.say(error),
    mended: () => problem.say(null),
    whole: (value) => {
      const old = new Map((groups ?? []).map((g) => [g.id, g]));
      // What has not changed stays the same row: nothing flickers.
      groups = value.groups.map((g) => {
        const before = old.get(g.id);
        return before && before.state === g.state && before.type === g.type ? before : g;
      });
      if (!groups.length) fill(place, empty("No group has read anything yet."));
      else if (!table.node.isConnected) fill(place, h("div", { class: "toolbar" }, search, total), table.node);
      show();
    },
  });
}

/** Members and lag of the groups in sight, asked for in bunches and again every few seconds. */
function summaryLoader(signal, onNews) {
  const known = new Map();
  const cells = new Map();
  const waiting = new Set();
  let timer = null;
  let isAsking = false;
  const value = (id, name) => known.get(id)?.[name] ?? null;
  const text = (id, name) => (known.has(id) ? count(value(id, name)) : "…");
  const draw = (id) => {
    for (const [name, node] of Object.entries(cells.get(id) ?? {})) {
      setText(node, text(id, name));
      const error = known.get(id)?.error;
      if (error) node.title = error;
    }
  };
  const ask = async () => {
    if (isAsking || !waiting.size || signal.aborted) return;
    isAsking = true;
    const ids = [...waiting].slice(0, MOST_AT_ONCE);
    for (const id of ids) waiting.delete(id);
    try {
      for (const summary of await get("/groups/summaries", { ids: JSON.stringify(ids) }, { signal })) {
        known.set(summary.id, summary);
        draw(summary.id);
      }
      onNews();
    } catch {
      // The list's own feed says what is wrong with the cluster.
    }
    isAsking = false;
    if (waiting.size) setTimeout(ask, 0);
  };
  const want = (ids) => {
    for (const id of ids) if (!known.has(id)) waiting.add(id);
    clearTimeout(timer);
    timer = setTimeout(ask, 60);
  };
  const again = setInterval(() => {
    for (const [id, nodes] of cells) {
      if (Object.values(nodes).some((node) => node.isConnected)) waiting.add(id);
      else cells.delete(id);
    }
    ask();
  }, AGAIN_MS);
  signal.addEventListener("abort", () => {
    clearInterval(again);
    clearTimeout(timer);
  });
  return {
    value,
    want,
    cell(id, name) {
      const node = h("span", {}, text(id, name));
      cells.set(id, { ...cells.get(id), [name]: node });
      want([id]);
      return node;
    },
  };
}

// ---- one group

function mountGroup(root, id, { signal, side, session }) {
  const problem = problemPlace();
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Asking the cluster…"));
  const told = h("div", {});
  let view = null;
  let group = null;
  const act = async (dialog, words) => {
    const done = await dialog;
    if (done) fill(told, notice("good", words(done)));
    return done;
  };
  const buttons = [
    h("button", { class: "button", type: "button", disabled: true, onclick: () => act(resetDialog(group, view.rows()), (plan) => `Offsets of ${plural(plan.rows.length, "partition")} are reset.`) }, "Reset offsets…"),
    h("button", { class: "button", type: "button", disabled: true, onclick: () => act(deleteOffsetsDialog(group, view.rows()), () => "The offsets are deleted.") }, "Delete offsets…"),
    h("button", { class: "button", type: "button", disabled: true, onclick: () => act(deleteDialog(id), () => "Deleted.").then((done) => done && navigate("/groups")) }, "Delete…"),
  ];
  if (!session.read_only) fill(side, ...buttons);
  fill(root, h("div", { class: "stack" }, h("div", { class: "row" }, h("h2", { class: "grow wrap-anywhere" }, shownId(id)), h("a", { href: "/groups" }, "All groups")), problem.node, told, place));
  const take = (value, isWhole) => {
    for (const button of buttons) button.disabled = false;
    group = value;
    if (!view) {
      view = groupView(signal);
      fill(place, view.node);
    }
    view.take(value, isWhole);
  };
  live("group", { id }, {
    signal,
    problem: (error) => {
      problem.say(error);
      view?.gap();
      if (!view) fill(place);
    },
    mended: () => problem.say(null),
    whole: (value) => take(value, true),
    news: (value) => take(value, false),
  });
}

function groupView(signal) {
  const rows = new Map();
  const history = new Map();
  const totals = [];
  let isGap = false;
  let last = null;
  const says = h("div", {});
  const stats = ["State", "Lag", "Members", "Type", "Assignor", "Coordinator"].map((name) => ({ name, node: h("dd", {}, "–") }));
  const chart = lineChart({ label: "Lag over time", points: POINTS, stepMs: STEP_MS });
  const members = h("div", {});
  const cell = (row, make, update) => {
    const node = make();
    row.updates.push(() => node.isConnected && update(node));
    update(node);
    return node;
  };
  const number = (name) => (row) => cell(row, () => h("span", {}), (node) => setText(node, count(row[name])));
  const table = dataTable({
    label: "Partitions",
    key: (row) => row.key,
    empty: "Nothing is committed or assigned.",
    height: "480px",
    columns: [
      { name: "topic", title: "Topic", cell: (r) => h("a", { href: path`/messages/${r.topic}` }, r.topic), by: (r) => r.topic },
      { name: "partition", title: "Partition", numeric: true, cell: (r) => String(r.partition), by: (r) => r.partition },
      { name: "committed", title: "Committed", numeric: true, cell: number("committed"), by: (r) => r.committed },
      { name: "end", title: "End", numeric: true, cell: number("end"), by: (r) => r.end },
      { name: "lag", title: "Lag", numeric: true, cell: number("lag"), by: (r) => r.lag },
      { name: "line", title: "Last 3 min", cell: (r) => line(r) },
      { name: "member", title: "Read by", cell: (r) => cell(r, () => h("span", { class: "foreign" }), (node) => setText(node, r.reader)), by: (r) => r.reader },
    ],
  });
  const line = (row) => {
    const small = sparkline({ label: `Lag of ${row.topic} ${row.partition}`, points: POINTS, width: 110, height: 22 });
    for (const value of history.get(row.key) ?? []) small.push(value);
    row.ticks = [(value) => small.node.isConnected && small.push(value)];
    return h("span", { class: "lag-cell" }, small.node);
  };
  const tick = () => {
    if (!last) return;
    push(totals, isGap ? null : last.lag);
    for (const row of rows.values()) {
      const values = history.get(row.key) ?? [];
      push(values, isGap ? null : row.lag);
      history.set(row.key, values);
      for (const draw of row.ticks) draw(values.at(-1));
    }
    chart.draw(lines());
  };
  const lines = () => {
    const highest = [...rows.values()].filter((row) => row.lag).sort((a, b) => b.lag - a.lag).slice(0, 5);
    return [{ name: "all partitions", values: totals }, ...(highest.length > 1 ? highest.map((row) => ({ name: `${row.topic} ${row.partition}`, values: history.get(row.key) ?? [] })) : [])];
  };
  const timer = setInterval(tick, STEP_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return {
    node: h(
      "div",
      { class: "stack" },
      says,
      h("dl", { class: "stats" }, ...stats.map(({ name, node }) => h("div", { class: "stat" }, h("dt", {}, name), node))),
      h("section", { class: "card", "aria-label": "Lag" }, h("h2", {}, "Lag"), chart.node),
      h("section", { "aria-label": "Partitions" }, h("h2", {}, "Partitions"), table.node),
      h("section", { "aria-label": "Members" }, h("h2", {}, "Members"), members),
    ),
    rows: () => [...rows.values()],
    gap: () => (isGap = true),
    take(group, isWhole) {
      const isFirst = last === null;
      last = group;
      isGap = false;
      const readers = new Map(group.members.map((m) => [m.id, m]));
      if (isWhole) {
        const now = new Set(group.offsets.map(rowKey));
        for (const key of rows.keys()) if (!now.has(key)) rows.delete(key);
      }
      for (const [topic, partition] of group.gone) rows.delete(rowKey({ topic, partition }));
      for (const found of group.offsets) {
        const key = rowKey(found);
        const row = rows.get(key) ?? { key, updates: [], ticks: [] };
        const member = readers.get(found.member);
        Object.assign(row, found, { reader: member ? visible(member.client_id || member.id) : "" });
        rows.set(key, row);
        row.updates = row.updates.filter((update) => update() !== false);
      }
      drawStats(stats, group);
      fill(says, ...remarks(group, [...rows.values()]));
      drawMembers(members, group);
      table.setRows([...rows.values()]);
      if (isFirst) tick();
    },
  };
}

function push(values, value) {
  values.push(value);
  if (values.length > POINTS) values.shift();
}

function rowKey({ topic, partition }) {
  return `${topic}/${partition}`;
}

function drawStats(stats, group) {
  const values = [group.state, count(group.lag), count(group.members.length), group.type, visible(group.assignor) || "–", `broker ${group.coordinator}`];
  stats.forEach(({ node }, i) => {
    setText(node, values[i]);
    node.className = i === 0 && STATES[group.state] ? `${STATES[group.state]}-text` : "foreign wrap-anywhere";
  });
}

/** What is wrong, in words. */
function remarks(group, rows) {
  const found = [];
  const unread = rows.filter((row) => !row.member && row.lag).length;
  const missing = rows.filter((row) => row.end === null).length;
  if (group.state.includes("Rebalance")) found.push(notice("warn", "The group rebalances: nothing is read until it has shared out the partitions."));
  if (missing) found.push(notice("bad", `The end of ${plural(missing, "partition")} cannot be asked: no leader, or the topic is gone.`));
  if (group.members.length && unread) found.push(notice("warn", `${plural(unread, "partition")} with lag ${unread === 1 ? "is" : "are"} read by no member.`));
  if (!group.members.length && group.lag) found.push(notice("warn", "Nobody reads: the group has no members, and its lag grows with every record."));
  return found;
}

function drawMembers(place, group) {
  if (!group.members.length) return fill(place, h("p", { class: "muted" }, "None."));
  const items = group.members.slice(0, 200).map((member) =>
    h(
      "li",
      {},
      h("strong", { class: "clip foreign" }, visible(member.client_id) || "no client id"),
      h("span", { class: "clip muted small foreign", title: visible(member.id) }, visible(member.id)),
      h("span", { class: "clip small foreign" }, `${visible(member.host)}${member.instance_id ? `, instance ${visible(member.instance_id)}` : ""}`),
      ...(member.assigned.length ? member.assigned.slice(0, 20).map((a) => h("span", { class: "clip small" }, `${a.topic}: ${ranges(a.partitions)}`)) : [h("span", { class: "clip small muted" }, "nothing assigned")]),
    ),
  );
  const left = group.members.length - items.length;
  return fill(place, h("ul", { class: "member-list" }, ...items), left > 0 ? h("p", { class: "muted" }, `and ${count(left)} more`) : null);
}

/** [0, 1, 2, 5] -> 0-2, 5 */
function ranges(numbers) {
  const parts = [];
  for (const n of numbers) {
    const open = parts.at(-1);
    if (open && open[1] === n - 1) open[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(", ");
}

// ---- writes

const SCENARIOS = [
  { value: "to-earliest", label: "The first record there is" },
  { value: "to-latest", label: "The end" },
  { value: "to-datetime", label: "A time" },
  { value: "to-offset", label: "An offset" },
  { value: "shift-by", label: "So many records on, or back" },
  { value: "to-current", label: "Where it is (to keep a copy)" },
];

function resetDialog(group, rows) {
  return modal("Reset offsets", (close) => {
    const scenario = field({ name: "scenario", label: "Go to", type: "select", value: "to-earliest", options: SCENARIOS });
    const number = field({ name: "number", label: "Number", type: "number", attributes: { step: 1 } });
    const time = field({ name: "time_ms", label: "Time", type: "datetime-local", attributes: { step: "0.001" } });
    const chosen = choices(rows);
    const arrange = () => {
      number.node.hidden = !["to-offset", "shift-by"].includes(scenario.value());
      time.node.hidden = scenario.value() !== "to-datetime";
    };
    scenario.input.addEventListener("input", arrange);
    arrange();
    const problem = h("div", {});
    const fields = [scenario, number, time];
    const form = h("form", { method: "dialog" }, scenario.node, number.node, time.node, chosen.node, problem, actions(close, "Dry run"));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      fill(problem);
      for (const one of fields) one.setError(null);
      const at = new Date(time.value()).getTime();
      const body = { id: group.id, scenario: scenario.value(), number: number.value(), time_ms: scenario.value() === "to-datetime" && !Number.isNaN(at) ? at : null, topics: chosen.value() };
      try {
        const done = await confirmWrite({ title: "Reset these offsets?", method: "POST", path: "/group/offsets", body, verb: "Reset", describe: describePlan });
        if (done) close(done);
      } catch (error) {
        if (!showAtField(fields, error)) fill(problem, failure(error));
      }
    });
    return form;
  });
}

function actions(close, verb) {
  return h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Cancel"), h("button", { class: "button primary", type: "submit" }, verb));
}

/** Partitions to tick, by topic; all of them is null. */
function choices(rows) {
  const topics = new Map();
  for (const row of rows) topics.set(row.topic, [...(topics.get(row.topic) ?? []), row.partition]);
  const boxes = [...topics].map(([topic, partitions]) => ({
    topic,
    all: partitions,
    box: field({ name: "topic", label: topic, type: "checkbox", value: true }),
    some: h("input", { "aria-label": `Partitions of ${topic}`, placeholder: `all: ${ranges(partitions.sort((a, b) => a - b))}`, autocomplete: "off" }),
  }));
  const more = field({ name: "other", label: "Another topic", value: "" });
  return {
    node: h("fieldset", { class: "pick-topics" }, h("legend", {}, "Topics, and partitions if not all"), ...boxes.map(({ box, some }) => h("div", { class: "two" }, box.node, some)), more.node),
    value: () => {
      const found = boxes.filter(({ box }) => box.value()).map(({ topic, some }) => ({ topic, partitions: some.value.trim() ? parsePartitions(some.value) : null }));
      if (more.value().trim()) found.push({ topic: more.value().trim(), partitions: null });
      return found;
    },
  };
}

/** 0, 2-4 -> [0, 2, 3, 4] */
function parsePartitions(text) {
  return text.split(",").flatMap((part) => {
    const found = /^\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*$/.exec(part);
    if (!found) throw { message: `"${part.trim()}" is no partition: 0, 2-4`, code: "INVALID_REQUEST" };
    const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  });
}

function describePlan(plan) {
  const table = h(
    "table",
    { class: "data", "aria-label": "Before and after" },
    h("thead", {}, h("tr", {}, ...["Topic", "Partition", "Before", "After", "Lag then"].map((name, i) => h("th", { scope: "col", class: i ? "num" : "" }, name)))),
    h("tbody", {}, ...plan.rows.slice(0, 500).map((row) => h("tr", {}, h("td", {}, row.topic), ...[row.partition, row.before, row.after, row.lag].map((n) => h("td", { class: "num" }, count(n)))))),
  );
  const left = plan.rows.length - 500;
  return [
    h("div", { class: "plan", tabindex: "0", role: "region", "aria-label": "Dry run" }, table),
    left > 0 ? h("p", { class: "muted" }, `and ${count(left)} more`) : null,
    ...plan.warnings.slice(0, 10).map((words) => notice("warn", words)),
    plan.csv ? h("p", { class: "small" }, "The way back: ", fileLink("offsets.csv", plan.csv), ", for --reset-offsets --from-file offsets.csv.") : null,
  ];
}

function deleteOffsetsDialog(group, rows) {
  return modal("Delete offsets", (close) => {
    const chosen = choices(rows);
    const problem = h("div", {});
    const form = h("form", { method: "dialog" }, h("p", {}, "Only of topics that no member reads. Whoever reads them next begins by its own rule."), chosen.node, problem, actions(close, "Go on"));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      fill(problem);
      try {
        const done = await confirmWrite({ title: "Delete these offsets?", method: "DELETE", path: "/group/offsets", body: { id: group.id, topics: chosen.value() }, verb: "Delete", danger: true });
        if (done) close(done);
      } catch (error) {
        fill(problem, failure(error));
      }
    });
    return form;
  });
}

async function deleteDialog(id) {
  return confirmWrite({ title: `Delete the group ${visible(id)}?`, method: "DELETE", path: "/group", body: { id }, verb: "Delete", danger: true, describe: () => h("p", {}, "Its committed offsets go with it.") });
}

import { get, withQuery } from "../lib/api.js";
import { bytesOf, fileLink, hexDump, isText, jsonOf, jsonTree, oneLine, visible } from "../lib/bytes.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { fill, h, path, setText } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { bytes, count, plural, timestamp } from "../lib/format.js";
import { live } from "../lib/live.js";
import { empty, failure, notice, problemPlace } from "../lib/notices.js";
import { keepInAddress, navigate } from "../lib/router.js";
import { dataTable } from "../lib/table.js";

export const title = "Messages";
export const question = "What is in a topic?";

const MAX_LIVE_ROWS = 200;

export function mount(root, context) {
  return context.params.name ? mountTopic(root, context) : mountChoice(root, context);
}

// ---- which topic

async function mountChoice(root, { signal, query }) {
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search topics", value: query.get("q") ?? "" });
  const table = dataTable({
    label: "Topics",
    key: (topic) => topic.name,
    empty: "No topic has such a name.",
    onRow: (topic) => navigate(path`/messages/${topic.name}`),
    columns: [
      { name: "name", title: "Topic", cell: (t) => h("a", { href: path`/messages/${t.name}` }, t.name), by: (t) => t.name },
      { name: "partitions", title: "Partitions", numeric: true, cell: (t) => count(t.partitions), by: (t) => t.partitions, width: "120px" },
    ],
  });
  fill(root, h("p", { class: "muted" }, "Asking the cluster…"));
  const topics = await get("/messages", {}, { signal });
  const show = () => {
    const words = search.value.trim().toLowerCase();
    keepInAddress({ q: search.value });
    table.setRows(topics.filter((topic) => topic.name.toLowerCase().includes(words) && (words || !topic.is_internal)));
  };
  search.addEventListener("input", show);
  if (!topics.length) fill(root, empty("There are no topics yet."));
  else fill(root, h("div", { class: "toolbar" }, search), table.node);
  show();
}

// ---- one topic

const STARTS = [
  { value: "", label: "the end of the log" },
  { value: "offset", label: "an offset" },
  { value: "time", label: "a time" },
];

async function mountTopic(root, { params, query, signal, side, session }) {
  const topic = params.name;
  const given = Object.fromEntries(query);
  const isFollowing = given.follow === "true";
  const place = h("div", { class: "stack" });
  const told = h("div", {});
  const write = async () => {
    const written = await produceDialog(topic);
    if (!written) return;
    if (!isFollowing) await show(place, topic, { ...given, cursor: null }, signal);
    fill(told, notice("good", `Written to partition ${written.partition} at offset ${count(written.offset)}.`));
  };
  fill(
    side,
    h("button", { class: "button", type: "button", "aria-pressed": String(isFollowing), onclick: () => navigate(withQuery(path`/messages/${topic}`, { ...given, cursor: null, follow: isFollowing ? null : "true" })) }, isFollowing ? "Stop following" : "Follow"),
    session.read_only ? null : h("button", { class: "button primary", type: "button", onclick: write }, "Produce…"),
  );
  const head = h("div", { class: "row" }, h("h2", { class: "grow foreign" }, topic), h("a", { href: "/messages" }, "Another topic"));
  fill(root, h("div", { class: "stack" }, head, isFollowing ? null : searchForm(topic, given), told, place));
  if (isFollowing) follow(place, topic, given, signal);
  else await show(place, topic, given, signal);
}

function searchForm(topic, given) {
  const newest = given.order !== "oldest";
  const fields = {
    order: field({ name: "order", label: "Order", type: "select", value: newest ? "newest" : "oldest", options: [{ value: "newest", label: "Newest first" }, { value: "oldest", label: "Oldest first" }] }),
    from: field({ name: "from", label: "Begin at", type: "select", value: given.offset ? "offset" : given.time_ms ? "time" : "", options: STARTS }),
    offset: field({ name: "offset", label: "Offset", type: "text", value: given.offset ?? "", attributes: { inputmode: "numeric" } }),
    time: field({ name: "time_ms", label: "Time", type: "datetime-local", value: given.time_ms ? localTime(Number(given.time_ms)) : "", attributes: { step: "0.001" } }),
    partitions: field({ name: "partitions", label: "Partitions", value: given.partitions ?? "", attributes: { placeholder: "all, or 0,3" } }),
    key: field({ name: "key", label: "Key", value: given.key ?? "", attributes: { placeholder: "any" } }),
    keyFormat: field({ name: "key_format", label: "Key as", type: "select", value: given.key_format ?? "text", options: [{ value: "text", label: "Text" }, { value: "hex", label: "Hex" }] }),
    committed: field({ name: "committed", label: "Only committed", type: "checkbox", value: given.committed === "true" }),
    markers: field({ name: "markers", label: "Transaction markers", type: "checkbox", value: given.markers === "true" }),
  };
  const arrange = () => {
    fields.offset.node.classList.toggle("is-hidden", fields.from.value() !== "offset");
    fields.time.node.classList.toggle("is-hidden", fields.from.value() !== "time");
    fields.keyFormat.node.classList.toggle("is-hidden", fields.key.value() === "");
    setText(fields.from.input.options[0], fields.order.value() === "newest" ? "the end of the log" : "the beginning of the log");
  };
  for (const one of [fields.from, fields.order, fields.key]) one.input.addEventListener("input", arrange);
  arrange();
  const form = h(
    "form",
    { class: "card" },
    h("div", { class: "message-form" }, fields.order.node, fields.from.node, fields.offset.node, fields.time.node, fields.partitions.node, fields.key.node, fields.keyFormat.node),
    h("div", { class: "message-form-end" }, fields.committed.node, fields.markers.node, h("span", { class: "grow" }), h("button", { class: "button primary", type: "submit" }, "Look")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    for (const one of Object.values(fields)) one.setError(null);
    const from = fields.from.value();
    const at = fields.time.value() ? new Date(fields.time.value()).getTime() : NaN;
    if (from === "time" && Number.isNaN(at)) return showAtField([fields.time], { field: "time_ms", message: "Give a day and a time." });
    if (from === "offset" && !/^\d{1,18}$/.test(fields.offset.value().trim())) return showAtField([fields.offset], { field: "offset", message: "A whole number, 0 or more." });
    const key = fields.key.value();
    const wanted = {
      order: fields.order.value() === "newest" ? null : "oldest",
      offset: from === "offset" ? fields.offset.value().trim() : null,
      time_ms: from === "time" ? at : null,
      partitions: fields.partitions.value().trim(),
      key,
      key_format: key && fields.keyFormat.value() === "hex" ? "hex" : null,
      committed: fields.committed.value() ? "true" : null,
      markers: fields.markers.value() ? "true" : null,
    };
    navigate(withQuery(path`/messages/${topic}`, wanted));
  });
  return form;
}

function localTime(ms) {
  return Number.isFinite(ms) ? timestamp(ms).replace(" ", "T") : "";
}

async function show(place, topic, given, signal) {
  fill(place, h("p", { class: "muted", role: "status" }, given.key ? "Looking for the key…" : "Reading…"));
  let page;
  try {
    page = await get(path`/messages/${topic}`, given, { signal });
  } catch (error) {
    if (error.name !== "AbortError") fill(place, failure(error));
    return;
  }
  if (signal.aborted) return;
  const list = messageList(topic);
  list.add(page.records);
  const here = path`/messages/${topic}`;
  fill(
    place,
    h("p", { class: "muted", role: "status" }, words(page, given)),
    ...page.notes.map((note) => notice("warn", visible(note))),
    page.records.length ? list.node : empty(nothing(page, given)),
    h(
      "div",
      { class: "pager" },
      given.cursor ? h("a", { class: "button", href: withQuery(here, { ...given, cursor: null }) }, "First page") : h("span", {}),
      given.key && !given.everywhere && page.looked.partitions?.length === 1 && !given.partitions && !page.next
        ? h("a", { class: "button", href: withQuery(here, { ...given, everywhere: "true", cursor: null }) }, "Look in all partitions")
        : null,
      page.next ? h("a", { class: "button", href: withQuery(here, { ...given, cursor: page.next }) }, given.key ? "Look further" : given.order === "oldest" ? "Newer" : "Older") : null,
    ),
  );
}

function words(page, given) {
  const partitions = page.looked.partitions;
  const where = partitions === null ? `all ${plural(page.partition_count, "partition")}` : partitions.length === 1 ? `partition ${partitions[0]}` : plural(partitions.length, "partition");
  const why = { bytes: "Stopped here: enough bytes for one page.", time: "Stopped here: the time was over." }[page.stopped] ?? "";
  if (given.key) {
    const belongs = partitions?.length === 1 && !given.partitions && !given.everywhere ? ", where Kafka's partitioner puts this key" : "";
    return `Looked at ${plural(page.looked.records, "record")} (${bytes(page.looked.bytes)}) in ${where}${belongs}. ${page.next ? why : "That was all of it."}`;
  }
  return `${plural(page.records.length, "record")} of ${where}, which hold ${plural(page.total, "offset")}. ${why}`;
}

function nothing(page, given) {
  if (given.key) return page.next ? "No record with this key so far." : "No record has this key.";
  if (page.next) return "Nothing to show here; there is more further on.";
  return page.total ? "Nothing lies beyond where you begin." : "The topic is empty.";
}

// ---- live

function follow(place, topic, given, signal) {
  const problem = problemPlace();
  const list = messageList(topic);
  const status = h("p", { class: "muted", role: "status" }, "Asking the cluster…");
  let came = 0;
  let skipped = 0;
  fill(place, problem.node, status, list.node);
  const take = (value) => {
    came += value.records.length;
    skipped += value.skipped;
    list.prepend(value.records);
    const left = skipped ? ` ${count(skipped)} more came too fast and were skipped.` : "";
    setText(status, came ? `${plural(came, "record")} since you follow.${left}` : "Waiting for new records…");
  };
  live("messages", { topic, partitions: given.partitions, committed: given.committed }, {
    signal,
    problem: (error) => problem.say(error),
    mended: () => problem.say(null),
    whole: (value) => {
      came = skipped = 0;
      list.clear();
      take(value);
    },
    news: take,
  });
}

// ---- records

function messageList(topic) {
  const node = h("ul", { class: "messages", "aria-label": "Records" });
  const head = h("li", { class: "message-line message-head", "aria-hidden": "true" }, h("span", {}, "Time"), h("span", { class: "place" }, "Offset"), h("span", {}, "Key"), h("span", {}, "Value"), h("span", { class: "size" }, "Size"));
  node.append(head);
  return {
    node,
    add: (records) => node.append(...records.map((record) => messageItem(topic, record))),
    prepend: (records) => {
      head.after(...records.map((record) => messageItem(topic, record)));
      while (node.children.length > MAX_LIVE_ROWS + 1) node.lastChild.remove();
    },
    clear: () => node.replaceChildren(head),
  };
}

function messageItem(topic, record) {
  const line = h(
    "button",
    { class: "message-line", type: "button", "aria-expanded": "false" },
    h("span", { class: "at" }, record.timestamp_ms < 0 ? "no time" : timestamp(record.timestamp_ms)),
    h("span", { class: "place", title: `Partition ${record.partition}, offset ${count(record.offset)}` }, `${record.partition}:${record.offset}`),
    h("span", { class: "clip mono key-cell" }, shortPart(record.key, record.marker ? "" : "no key")),
    h("span", { class: "clip mono value-cell" }, record.marker ? h("span", { class: "badge accent" }, `${record.marker} marker`) : shortPart(record.value, "null")),
    h("span", { class: "size" }, bytes(record.size)),
  );
  const item = h("li", {}, line);
  let more = null;
  line.addEventListener("click", () => {
    if (more) {
      more.remove();
      more = null;
    } else {
      more = details(topic, record);
      item.append(more);
    }
    line.setAttribute("aria-expanded", String(more !== null));
  });
  return item;
}

function shortPart(data, absent) {
  if (data === null) return h("span", { class: "null" }, absent);
  if (!data.size) return h("span", { class: "null" }, "empty");
  return oneLine(data);
}

function details(topic, record) {
  const facts = [
    ["Partition, offset", `${record.partition}, ${count(record.offset)}`],
    ["Time", `${record.timestamp_ms < 0 ? "none" : timestamp(record.timestamp_ms)} (${record.timestamp_type})`],
    ["Size", `${count(record.size)} bytes, compression ${record.compression}`],
    ["Transaction", record.marker ? `${record.marker} marker of producer ${record.producer_id}` : record.is_transactional ? `in one of producer ${record.producer_id}` : null],
  ];
  const node = h("div", { class: "message-more" }, h("dl", { class: "facts" }, ...facts.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  if (!record.marker) node.append(partView("Key", "key", topic, record), partView("Value", "value", topic, record), headersView(record));
  return node;
}

function partView(name, which, topic, record) {
  let data = record[which];
  const head = h("div", { class: "part-head" }, h("h3", {}, name));
  const node = h("section", { "aria-label": name }, head);
  if (data === null) {
    head.append(h("span", { class: "null" }, which === "value" ? "null: a tombstone" : "null"));
    return node;
  }
  const body = h("div", {});
  const place = path`/messages/${topic}/${record.partition}/${record.offset}`;
  let way = isTree(jsonOf(data)) ? "JSON" : isText(data) ? "Text" : "Hex";
  const draw = () => {
    const json = way === "JSON" ? jsonOf(data) : undefined;
    const buttons = ["Text", "JSON", "Hex"].map((one) =>
      h("button", { type: "button", "aria-pressed": String(one === way), onclick: () => choose(one) }, one),
    );
    const cut = data.is_cut
      ? [
          h("span", { class: "muted small" }, `The first ${bytes(bytesOf(data).length)} of ${bytes(data.size)}.`),
          bytesOf(data).length < 1_000_000 ? h("button", { class: "button small", type: "button", onclick: open }, data.size > 1024 * 1024 ? "Show the first 1 MB" : "Show all of it") : null,
        ]
      : [h("span", { class: "muted small" }, plural(data.size, "byte"))];
    fill(head, h("h3", {}, name), h("span", { class: "segments", role: "group", "aria-label": `Show the ${which} as` }, ...buttons), ...cut, h("a", { class: "small", href: `/api/v1${place}/download?part=${which}`, download: "" }, "Download"));
    if (json) fill(body, jsonTree(json.value));
    else if (way === "JSON") fill(body, h("p", { class: "muted" }, data.is_cut ? "JSON can be shown once all of it is here." : "This is no JSON."));
    else if (way === "Hex") fill(body, h("pre", { class: "bytes hex", tabindex: "0" }, hexDump(data)));
    else fill(body, textView(data));
  };
  const choose = (one) => {
    way = one;
    draw();
    head.querySelector('[aria-pressed="true"]').focus();
  };
  const open = async (event) => {
    event.target.disabled = true;
    try {
      data = (await get(place))[which];
      if (isTree(jsonOf(data)) && way === "Text") way = "JSON";
      draw();
    } catch (error) {
      fill(body, failure(error));
    }
  };
  draw();
  node.append(body);
  return node;
}

function isTree(json) {
  return typeof json?.value === "object" && json.value !== null;
}

function textView(data) {
  const text = isText(data) ? data.text : new TextDecoder().decode(bytesOf(data));
  if (!text) return h("p", { class: "null" }, "empty");
  return h("div", {}, isText(data) ? null : h("p", { class: "muted small" }, "Not UTF-8: � stands for bytes that are no text."), h("pre", { class: "bytes", tabindex: "0" }, visible(text)));
}

function headersView(record) {
  const head = h("div", { class: "part-head" }, h("h3", {}, "Headers"), h("span", { class: "muted small" }, record.header_count ? count(record.header_count) : "none"));
  if (!record.header_count) return h("section", { "aria-label": "Headers" }, head);
  const rows = record.headers.map((header) => h("tr", {}, h("th", { scope: "row" }, visible(header.name) || h("span", { class: "null" }, "empty name")), h("td", {}, header.value === null ? h("span", { class: "null" }, "null") : shortPart(header.value, ""))));
  const left = record.header_count - record.headers.length;
  return h("section", { "aria-label": "Headers" }, head, h("table", { class: "header-table" }, h("tbody", {}, ...rows)), left > 0 ? h("p", { class: "muted small" }, `and ${count(left)} more`) : null);
}

// ---- produce

const FORMS = [
  { value: "text", label: "Text" },
  { value: "json", label: "JSON" },
  { value: "hex", label: "Hex" },
];

function produceDialog(topic) {
  return modal(`Produce to ${topic}`, (close) => {
    const kind = (name, label, absent) => field({ name: `${name}-format`, label, type: "select", value: "text", options: [...FORMS, { value: "null", label: absent }] });
    const keyForm = kind("key", "Key as", "null (no key)");
    const key = field({ name: "key", label: "Key", value: "" });
    const valueForm = kind("value", "Value as", "null (a tombstone)");
    const value = field({ name: "value", label: "Value", type: "textarea", value: "" });
    const partition = field({ name: "partition", label: "Partition", type: "number", help: "Empty: the key decides, without a key any.", attributes: { min: 0 } });
    const headers = field({ name: "headers", label: "Headers", type: "textarea", value: "", help: "One in a line, name: value. A name without a colon has the value null." });
    keyForm.input.value = "null";
    const arrange = () => {
      key.input.disabled = keyForm.value() === "null";
      value.input.disabled = valueForm.value() === "null";
    };
    keyForm.input.addEventListener("input", arrange);
    valueForm.input.addEventListener("input", arrange);
    arrange();
    const problem = h("div", {});
    const fields = [key, value, partition, headers];
    const part = (form, one) => (form.value() === "null" ? null : { data: one.value(), format: form.value() });
    const form = h(
      "form",
      { method: "dialog" },
      h("div", { class: "two" }, keyForm.node, key.node),
      valueForm.node,
      value.node,
      headers.node,
      partition.node,
      problem,
      h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Cancel"), h("button", { class: "button primary", type: "submit" }, "Go on")),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      fill(problem);
      for (const one of fields) one.setError(null);
      const body = { key: part(keyForm, key), value: part(valueForm, value), headers: parseHeaders(headers.value()), partition: partition.value() };
      try {
        const written = await confirmWrite({ title: `Write one record to ${topic}?`, method: "POST", path: path`/messages/${topic}`, body, verb: "Write", describe: describeRecord });
        if (written) close(written);
      } catch (error) {
        if (!showAtField(fields, error)) fill(problem, failure(error));
      }
    });
    return form;
  });
}

function parseHeaders(text) {
  return text
    .split("\n")
    .filter((line) => line.trim())
    .map((line) => {
      const at = line.indexOf(":");
      return at < 0 ? { name: line.trim(), value: null } : { name: line.slice(0, at).trim(), value: { data: line.slice(at + 1).trim() } };
    });
}

function describeRecord(preview) {
  const where = preview.partition === null ? "a partition that the producer picks" : `partition ${preview.partition}`;
  const file = preview.file === null ? null : h("p", {}, "The command reads it from a file: ", fileLink("record.json", preview.file), ".");
  return [h("p", {}, `${plural(preview.size, "byte")} go to ${where}.`), file];
}

import { get } from "../lib/api.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { fill, h, link, path } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { bytes, count, duration, plural, timestamp } from "../lib/format.js";
import { empty, notice, problemPlace } from "../lib/notices.js";
import { navigate } from "../lib/router.js";
import { dataTable } from "../lib/table.js";

export const title = "Deleted topics";
export const question = "What can be brought back?";

const EVERY_MS = 5000;
const where = (row) => path`/deleted-topics/${row.name}/${row.topic_id}`;
const toTheMinute = (ms) => timestamp(ms).slice(0, 16);

export async function mount(root, { signal, side }) {
  const problem = problemPlace();
  const summary = h("p", { class: "muted list-summary", role: "status" }, "Asking the cluster…");
  const place = h("div", {});
  let timer = null;
  const table = dataTable({
    label: "Deleted topics",
    key: (row) => row.topic_id,
    sort: { name: "deleted", descending: true },
    onRow: (row) => row.state === "returning" || undelete(row).then(load),
    columns: [
      { name: "name", title: "Name", by: (row) => row.name, cell: nameCell },
      { name: "partitions", title: "Partitions", width: "110px", numeric: true, by: (row) => row.partitions, cell: (row) => count(row.partitions) },
      { name: "size", title: "Size", width: "95px", numeric: true, by: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { name: "deleted", title: "Deleted", width: "160px", by: (row) => row.deleted_ms, cell: (row) => toTheMinute(row.deleted_ms) },
      { name: "until", title: "Kept for another", width: "155px", by: (row) => row.until_ms, cell: untilCell },
      { name: "actions", title: "", width: "265px", cell: (row) => actions(row, load) },
    ],
  });
  async function load() {
    clearTimeout(timer);
    try {
      const found = await get("/deleted-topics", {}, { signal });
      problem.say(null);
      draw(found);
      if (!found.is_known) return;
    } catch (error) {
      if (error.name === "AbortError") return;
      problem.say(error);
    }
    if (!signal.aborted) timer = setTimeout(load, EVERY_MS);
  }
  function draw(found) {
    if (!found.is_known) {
      summary.textContent = "";
      fill(place, empty("This cluster keeps no deleted topics: Apache Kafka has no trash."));
      return;
    }
    summary.textContent = found.topics.length ? `${plural(found.topics.length, "topic")} in the trash` : "";
    if (!found.topics.length) {
      fill(place, empty("Nothing is in the trash.", h("p", { class: "small" }, "A topic is kept after its deletion for as long as its config ", h("code", {}, "ottla.delete.retention.ms"), " says.")));
      return;
    }
    if (table.node.parentNode !== place) fill(place, table.node);
    table.setRows(found.topics);
  }
  signal.addEventListener("abort", () => clearTimeout(timer));
  fill(side, link("/topics", "All topics"));
  fill(root, problem.node, h("div", { class: "row list-head" }, summary), place);
  await load();
}

function nameCell(row) {
  return [h("span", { title: `Id ${row.topic_id}` }, row.name), row.state === "returning" ? h("span", { class: "badge beside" }, "coming back") : null];
}

function untilCell(row) {
  if (row.until_ms === null) return "for ever";
  const left = row.until_ms - Date.now();
  return left > 0 ? h("span", { title: `Until ${toTheMinute(row.until_ms)}` }, duration(left)) : "on its way out";
}

function actions(row, reload) {
  if (row.state === "returning") return null;
  return h(
    "span",
    { class: "row actions-cell" },
    h("button", { class: "button small", type: "button", "aria-label": `Bring ${row.name} back…`, onclick: () => undelete(row).then(reload) }, "Bring back…"),
    h("button", { class: "button small danger-quiet", type: "button", "aria-label": `Remove ${row.name} for good…`, onclick: () => purge(row).then(reload) }, "Remove…"),
  );
}

async function undelete(row) {
  const done = await modal(`Bring ${row.name} back`, (close) => {
    const name = field({ name: "new_name", label: "Under the name", value: row.name, attributes: { required: true } });
    const problem = problemPlace();
    const go = h("button", { class: "button primary", type: "submit" }, "Bring back…");
    const form = h("form", { novalidate: true }, name.node, problem.node, h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Cancel"), go));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.say(null);
      name.setError(null);
      go.disabled = true;
      try {
        const answer = await confirmWrite({
          title: `Bring ${row.name} back${name.value() === row.name ? "" : ` as ${name.value()}`}`,
          method: "POST",
          path: `${where(row)}/undelete`,
          body: { new_name: name.value() },
          verb: "Bring back",
          describe: (kept) => h("p", {}, `${plural(kept.partitions, "partition")} with ${bytes(kept.bytes)}, its configs, its id and the positions of its groups come back.`),
        });
        if (answer) close(answer);
      } catch (error) {
        if (!showAtField([name], error)) problem.say(error);
      } finally {
        go.disabled = false;
      }
    });
    setTimeout(() => name.input.select());
    return form;
  });
  if (done) navigate(path`/topics/${done.name}`);
}

async function purge(row) {
  try {
    await confirmWrite({
      title: `Remove ${row.name} for good`,
      method: "DELETE",
      path: where(row),
      verb: "Remove",
      danger: true,
      typed: row.name,
      describe: (kept) => h("p", {}, `${plural(kept.partitions, "partition")} with ${bytes(kept.bytes)} will be gone, and cannot be brought back any more.`),
    });
  } catch (error) {
    await modal("It cannot be removed", (close) => [notice("bad", error.message), h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Close"))]);
  }
}

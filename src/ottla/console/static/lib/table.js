// A table of any length: only the rows in sight are in the document.

import { h, fill } from "./dom.js";

const ROW_PX = 36;
const BEYOND = 12;
const REST_PX = 200;
// Made once: localeCompare with options makes one for every comparison.
const names = new Intl.Collator("en", { numeric: true });

/**
 * dataTable({label, columns, key, empty, sort, onSort, onRow, height})
 * columns: [{name, title, cell(row) -> node | text, by(row) -> sortable | undefined, numeric, width}]
 * -> {node, setRows(rows), redraw(), setEmpty(text), toTop()}
 * Rows are sorted here; `onSort(name, descending)` lets a page keep it in its address. Arrow keys
 * move along the rows, Enter opens one (`onRow`), where rows can be opened.
 */
export function dataTable({ label, columns, key, empty = "Nothing here.", sort = null, onSort = () => {}, onRow = null, height = null }) {
  let rows = [];
  let words = empty;
  let shown = [];
  let sorted = sort ?? { name: columns.find((c) => c.by)?.name ?? null, descending: false };
  const head = h("tr", {});
  const body = h("tbody", {});
  const above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
  const below = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
  const table = h("table", { class: "data", "aria-label": label }, h("thead", {}, head), body);
  const box = h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": label }, table);
  if (height) box.style.maxHeight = height;
  // With widths the columns stay where they are while rows come and go; one without takes the rest.
  if (columns.some((c) => c.width)) {
    table.classList.add("fixed");
    const rest = columns.filter((c) => !c.width).length;
    table.style.minWidth = `calc(${columns.map((c) => c.width).filter(Boolean).join(" + ")} + ${rest * REST_PX}px)`;
  }

  const drawHead = () => {
    fill(
      head,
      ...columns.map((column) => {
        const isSorted = column.by && sorted.name === column.name;
        const mark = h("span", { class: "sort-mark", "aria-hidden": "true" }, isSorted ? (sorted.descending ? "▾" : "▴") : "");
        // Before the title of numbers, so that it ends where they end.
        const parts = column.numeric ? [mark, column.title] : [column.title, mark];
        const title = column.by ? h("button", { type: "button", class: "sort", onclick: () => setSort(column.name) }, ...parts) : column.title;
        return h("th", { scope: "col", class: column.numeric ? "num" : "", "aria-sort": isSorted ? (sorted.descending ? "descending" : "ascending") : null, style: column.width ? { width: column.width } : {} }, title);
      }),
    );
  };
  const compare = (a, b) => (a === b ? 0 : typeof a === "string" && typeof b === "string" ? names.compare(a, b) : a < b ? -1 : a > b ? 1 : 0);
  const isNone = (value) => value === null || value === undefined;
  const arrange = () => {
    const column = columns.find((c) => c.name === sorted.name);
    shown = rows;
    if (!column?.by) return;
    // What has no value stands last, whichever way the others go; equals keep their order.
    const way = sorted.descending ? -1 : 1;
    const order = (x, y) => (isNone(x.value) || isNone(y.value) ? isNone(x.value) - isNone(y.value) : way * compare(x.value, y.value));
    const pairs = rows.map((row) => ({ row, value: column.by(row) }));
    shown = pairs.sort(order).map((pair) => pair.row);
  };
  const drawn = new Map();
  const rowNode = (row) => {
    const node = h("tr", onRow ? { class: "opens", tabindex: "0", onclick: (e) => e.target.closest("a, button, input") || onRow(row), onkeydown: (e) => e.key === "Enter" && e.target === node && onRow(row) } : {});
    fill(node, ...columns.map((c) => h("td", { class: c.numeric ? "num" : "" }, c.cell(row))));
    return node;
  };
  const draw = () => {
    if (!shown.length) {
      drawn.clear();
      table.setAttribute("aria-rowcount", "1");
      fill(body, h("tr", {}, h("td", { class: "none muted", colspan: columns.length }, words)));
      return;
    }
    const first = Math.max(0, Math.floor(box.scrollTop / ROW_PX) - BEYOND);
    const last = Math.min(shown.length, Math.ceil((box.scrollTop + (box.clientHeight || 800)) / ROW_PX) + BEYOND);
    const wanted = shown.slice(first, last);
    const keys = new Set(wanted.map(key));
    for (const old of drawn.keys()) if (!keys.has(old)) drawn.delete(old);
    above.firstChild.style.height = `${first * ROW_PX}px`;
    below.firstChild.style.height = `${(shown.length - last) * ROW_PX}px`;
    const nodes = wanted.map((row, i) => {
      let known = drawn.get(key(row));
      if (known?.row !== row) {
        known = { row, node: rowNode(row) };
        drawn.set(key(row), known);
      }
      known.node.setAttribute("aria-rowindex", String(first + i + 2));
      return known.node;
    });
    const all = [above, ...nodes, below];
    // What has not moved stays where it is: focus and selection survive a refresh.
    if (all.length !== body.childNodes.length || all.some((node, i) => body.childNodes[i] !== node)) {
      const focused = document.activeElement;
      body.replaceChildren(...all);
      if (focused && focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
    }
    table.setAttribute("aria-rowcount", String(shown.length + 1));
  };
  const setSort = (name) => {
    sorted = { name, descending: sorted.name === name ? !sorted.descending : false };
    onSort(sorted.name, sorted.descending);
    drawHead();
    arrange();
    draw();
  };
  let isDue = false;
  box.addEventListener("scroll", () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      draw();
    });
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = event.target.closest("tr.opens");
    const next = step === undefined ? null : step > 0 ? row?.nextElementSibling : row?.previousElementSibling;
    if (!next?.classList.contains("opens")) return;
    event.preventDefault();
    next.focus();
  });
  new ResizeObserver(draw).observe(box);
  drawHead();
  draw();
  return {
    node: box,
    setRows(given) {
      rows = given;
      arrange();
      draw();
    },
    /** Values outside the rows that cells show or that are sorted by have changed. */
    redraw() {
      drawn.clear();
      arrange();
      draw();
    },
    /** What is said where there are no rows. */
    setEmpty(text) {
      words = text;
      if (!shown.length) draw();
    },
    toTop() {
      box.scrollTop = 0;
    },
  };
}

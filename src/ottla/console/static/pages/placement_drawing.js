// The assignment algorithm, drawn: brokers in the order of the walk, a row for each partition.

import { debounced, fill, h, setText } from "../lib/dom.js";
import { field } from "../lib/form.js";
import { count, plural } from "../lib/format.js";

const ROWS = 48;

/**
 * placementDrawing() -> {node, show(drawing), showAssignment(lists), say(words), assignment(),
 * numbers() -> {start_index, shift}, setControls(on), onChange(f)}
 */
export function placementDrawing() {
  let drawing = null;
  let assignment = null;
  let isPinned = false;
  let changed = () => {};
  const start = field({ name: "start_index", label: "Start index", type: "number", attributes: { min: 0, step: 1 } });
  const shift = field({ name: "shift", label: "Shift", type: "number", attributes: { min: 0, step: 1 } });
  const anew = h("button", { class: "button", type: "button" }, "Draw lots again");
  const slider = h("input", { type: "range", min: 0, value: 0, step: 1, "aria-label": "Step" });
  const back = h("button", { class: "button small", type: "button" }, "Back");
  const next = h("button", { class: "button small", type: "button" }, "Next");
  const words = h("p", { class: "step-words", role: "status" });
  const grid = h("div", { class: "grid-box", tabindex: "0", role: "region", "aria-label": "Replicas by partition and broker" });
  const rest = h("p", { class: "muted small" });
  const numbers = h("div", { class: "draw-numbers" }, start.node, shift.node, anew);
  const stepper = h("div", { class: "stepper" }, back, slider, next);
  let cells = new Map();

  const soon = debounced(150, () => changed());
  const pin = () => {
    isPinned = true; // at once: an answer that is on its way does not overwrite what is typed
    soon();
  };
  start.input.addEventListener("input", pin);
  shift.input.addEventListener("input", pin);
  anew.addEventListener("click", () => {
    isPinned = false;
    changed();
  });
  slider.addEventListener("input", () => drawStep());
  back.addEventListener("click", () => move(-1));
  next.addEventListener("click", () => move(1));
  const move = (by) => {
    slider.value = String(Number(slider.value) + by);
    drawStep();
  };

  function drawGrid(places, rows) {
    cells = new Map();
    const hasRacks = places.some((place) => place.rack !== null);
    const led = new Map();
    const held = new Map();
    for (const replicas of rows) {
      led.set(replicas[0], (led.get(replicas[0]) ?? 0) + 1);
      for (const id of replicas) held.set(id, (held.get(id) ?? 0) + 1);
    }
    const head = [
      h("tr", {}, h("th", { scope: "col" }, "Index"), ...places.map((_, i) => h("th", { scope: "col", class: "num-head" }, i))),
      h("tr", {}, h("th", { scope: "row" }, "Broker"), ...places.map((place) => h("th", { scope: "col", class: "num-head" }, place.broker))),
      hasRacks ? h("tr", {}, h("th", { scope: "row" }, "Rack"), ...places.map((place) => h("td", { class: "rack", title: place.rack }, place.rack))) : null,
    ];
    const body = rows.slice(0, ROWS).map((_, partition) =>
      h("tr", {}, h("th", { scope: "row" }, `P${partition}`), ...places.map((place) => {
        const cell = h("td", { class: "slot" });
        cells.set(`${partition}/${place.broker}`, cell);
        return cell;
      })),
    );
    const foot = [
      h("tr", {}, h("th", { scope: "row" }, "Leads"), ...places.map((place) => h("td", {}, count(led.get(place.broker) ?? 0)))),
      h("tr", {}, h("th", { scope: "row" }, "Has"), ...places.map((place) => h("td", {}, count(held.get(place.broker) ?? 0)))),
    ];
    fill(grid, h("table", { class: "draw-grid", "aria-label": "Replicas by partition and broker" }, h("thead", {}, head), h("tbody", {}, body), h("tfoot", {}, foot)));
    setText(rest, rows.length > ROWS ? `And ${plural(rows.length - ROWS, "more partition")}, in the same way.` : "");
  }

  function mark(cell, kind, text, isNow) {
    if (!cell) return;
    fill(cell, h("span", { class: `mark ${kind} ${isNow ? "now" : ""}` }, text));
  }

  function drawStep() {
    const at = Number(slider.value);
    for (const cell of cells.values()) fill(cell);
    drawing.steps.slice(0, at).forEach((step, i) => {
      const isNow = i === at - 1 && at < drawing.steps.length;
      if (isNow) for (const index of step.passed) mark(cells.get(`${step.partition}/${drawing.places[index].broker}`), "over", "×", false);
      mark(cells.get(`${step.partition}/${step.broker}`), step.replica === 0 ? "lead" : "follow", String(step.replica + 1), isNow);
    });
    back.disabled = at === 0;
    next.disabled = at === drawing.steps.length;
    const step = drawing.steps[at - 1];
    const isAll = at === drawing.steps.length;
    const begin = `Start index ${drawing.start_index}, shift ${drawing.shift}; brokers ${drawing.places.some((p) => p.rack !== null) ? "so that racks take turns" : "in order of their ids"}.`;
    setText(words, at === 0 ? begin : isAll ? `${begin} 1 is the preferred leader. Go back to see the steps.` : `Partition ${step.partition}. ${step.words}`);
  }

  const node = h("div", { class: "drawing" }, numbers, stepper, words, grid, rest);
  return {
    node,
    show(value) {
      drawing = value;
      assignment = value.assignment;
      if (!isPinned) {
        start.input.value = String(value.start_index);
        shift.input.value = String(value.shift);
      }
      drawGrid(value.places, value.assignment);
      slider.max = String(value.steps.length);
      slider.value = slider.max;
      drawStep();
    },
    showAssignment(lists) {
      const ids = [...new Set(lists.flat())].sort((a, b) => a - b);
      drawGrid(ids.map((broker) => ({ broker, rack: null })), lists);
      lists.slice(0, ROWS).forEach((replicas, partition) => replicas.forEach((id, i) => mark(cells.get(`${partition}/${id}`), i === 0 ? "lead" : "follow", String(i + 1), false)));
      setText(words, lists.length ? "1 is the preferred leader." : "Nothing to draw yet.");
    },
    say(text) {
      assignment = null;
      fill(grid);
      setText(rest, "");
      setText(words, text);
    },
    assignment: () => assignment,
    numbers: () => (isPinned ? { start_index: start.value(), shift: shift.value() } : {}),
    setControls(isOn) {
      numbers.hidden = !isOn;
      stepper.hidden = !isOn;
    },
    onChange(f) {
      changed = f;
    },
  };
}

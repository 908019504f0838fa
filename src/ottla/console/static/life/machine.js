// A state machine as a picture: states and arrows come from the tables that the controller sent,
// only their places are chosen here.

import { h, setText, svg } from "../lib/dom.js";
import { count } from "../lib/format.js";

const WIDTH = 200;
const HEIGHT = 52;
const COLUMN = 264;
const ROW = 104;
const LEFT = 6;
const TOP = 40;
const RIGHT = 48;
const BOTTOM = 6;
const LIT_MS = 2500;

// Column and row of states; states that are not listed get places of their own below.
const PLACES = {
  NonExistentPartition: [0, 0],
  NewPartition: [1, 0],
  OnlinePartition: [2, 0],
  OfflinePartition: [2, 1],
  NonExistentReplica: [0, 0],
  NewReplica: [1, 0],
  OnlineReplica: [2, 0],
  OfflineReplica: [2, 1],
  ReplicaDeletionStarted: [1, 1],
  ReplicaDeletionSuccessful: [0, 1],
  ReplicaDeletionIneligible: [2, 2],
};

const NAMES = { partition: "Partitions", replica: "Replicas" };

/** {node, update(head)}: `update` moves the counts and lights the arrows that were taken since. */
export function machine(name, head) {
  const states = head.states.filter((one) => one.machine === name).map((one) => one.state);
  const steps = head.transitions.filter((one) => one.machine === name);
  const at = places(states);
  const rows = 1 + Math.max(...Object.values(at).map(([, row]) => row));
  const columns = 1 + Math.max(...Object.values(at).map(([column]) => column));
  const width = LEFT + (columns - 1) * COLUMN + WIDTH + RIGHT;
  const height = TOP + (rows - 1) * ROW + HEIGHT + BOTTOM;
  const centre = (state) => [LEFT + at[state][0] * COLUMN + WIDTH / 2, TOP + at[state][1] * ROW + HEIGHT / 2];
  const pairs = new Set(steps.map((one) => `${one.from_state}>${one.to_state}`));
  const arrows = new Map();
  const boxes = new Map();
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "machine", role: "img", "aria-label": `${NAMES[name] ?? name}: states and transitions` }, marker(name));
  for (const one of steps) {
    const key = `${one.from_state}>${one.to_state}`;
    const isPair = one.from_state !== one.to_state && pairs.has(`${one.to_state}>${one.from_state}`);
    const [d, label] = route(centre(one.from_state), centre(one.to_state), isPair);
    const line = svg("path", { d, class: "arrow-line", "marker-end": `url(#arrow-${name})` });
    const text = svg("text", { x: label[0], y: label[1], class: "arrow-count", "text-anchor": "middle" });
    const group = svg("g", { class: "arrow" }, svg("title", {}, `${one.from_state} → ${one.to_state}`), line, text);
    group.dataset.step = key;
    arrows.set(key, { group, text, count: null, timer: null });
    drawing.append(group);
  }
  for (const state of states) {
    const [x, y] = centre(state);
    const number = svg("text", { x, y: y + 17, class: "state-count", "text-anchor": "middle" });
    const box = svg("g", { class: "state" }, svg("rect", { x: x - WIDTH / 2, y: y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 8 }), svg("text", { x, y: y - 4, class: "state-name", "text-anchor": "middle" }, state), number);
    box.dataset.state = state;
    boxes.set(state, { box, number });
    drawing.append(box);
  }

  const update = (next) => {
    for (const one of next.states) {
      const found = one.machine === name ? boxes.get(one.state) : null;
      if (!found) continue;
      setText(found.number, one.state.startsWith("NonExistent") ? "" : count(one.count));
      found.box.classList.toggle("is-used", one.count > 0);
    }
    for (const one of next.transitions) {
      const found = one.machine === name ? arrows.get(`${one.from_state}>${one.to_state}`) : null;
      if (found) tell(found, one.count);
    }
  };
  update(head);
  const table = h("details", {}, h("summary", {}, "As a list"), list(steps, arrows));
  return { node: h("section", { class: "card" }, h("h2", {}, NAMES[name] ?? name), h("div", { class: "machine-box", tabindex: "0", role: "group", "aria-label": `${NAMES[name] ?? name}, picture` }, drawing), table), update };
}

/** What a reader of the screen hears, and whoever would rather read. */
function list(steps, arrows) {
  return h("ul", { class: "life-list small" }, steps.map((one) => {
    const number = h("span", { class: "num" }, count(one.count));
    arrows.get(`${one.from_state}>${one.to_state}`).number = number;
    return h("li", {}, `${one.from_state} → ${one.to_state}: `, number);
  }));
}

function tell(arrow, value) {
  const isTaken = arrow.count !== null && value > arrow.count;
  arrow.count = value;
  setText(arrow.text, value > 0 ? count(value) : "");
  if (arrow.number) setText(arrow.number, count(value));
  arrow.group.classList.toggle("is-taken", value > 0);
  if (!isTaken) return;
  arrow.group.classList.add("is-lit");
  clearTimeout(arrow.timer);
  arrow.timer = setTimeout(() => arrow.group.classList.remove("is-lit"), LIT_MS);
}

function places(states) {
  let extra = 0;
  return Object.fromEntries(states.map((state) => [state, PLACES[state] ?? [extra++ % 3, 3 + Math.floor(extra / 3)]]));
}

function marker(name) {
  return svg("defs", {}, svg("marker", { id: `arrow-${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M 0 0 L 8 4 L 0 8 z", class: "arrow-head" })));
}

/** The path of an arrow and the place of its number. */
function route([ax, ay], [bx, by], isPair) {
  if (ax === bx && ay === by) {
    // Stays where it is: a loop above the right corner.
    const x = ax + WIDTH / 2 - 34;
    const y = ay - HEIGHT / 2;
    return [`M ${x - 14} ${y} C ${x - 22} ${y - 34}, ${x + 22} ${y - 34}, ${x + 14} ${y - 2}`, [x + 30, y - 14]];
  }
  if (ax === bx && Math.abs(ay - by) > ROW) {
    // Past the state in between, on its right.
    const x = ax + WIDTH / 2;
    const out = x + 40;
    return [`M ${x} ${ay} C ${out} ${ay}, ${out} ${by}, ${x + 2} ${by}`, [x + 20, (ay + by) / 2 - ROW / 2 + 4]];
  }
  if (ax - bx > COLUMN && ay > by) {
    // A long way back: along the bottom, then up.
    const y = ay;
    const end = by + HEIGHT / 2 + 2;
    return [`M ${ax - WIDTH / 2} ${y} L ${bx + 30} ${y} Q ${bx} ${y} ${bx} ${y - 30} L ${bx} ${end}`, [(ax + bx) / 2, y - 8]];
  }
  const shift = isPair ? 16 : 0;
  const dx = bx - ax;
  const dy = by - ay;
  const length = Math.hypot(dx, dy);
  const nx = (-dy / length) * shift;
  const ny = (dx / length) * shift;
  const [sx, sy] = edge(ax + nx, ay + ny, dx, dy);
  const [ex, ey] = edge(bx + nx, by + ny, -dx, -dy);
  const middle = [(sx + ex) / 2, (sy + ey) / 2];
  const label = dx === 0 ? [middle[0] + (shift ? Math.sign(nx) * 16 : 16), middle[1] + 5] : [middle[0], middle[1] - 8];
  return [`M ${sx} ${sy} L ${ex} ${ey}`, label];
}

/** Where a line from inside a box leaves it. */
function edge(x, y, dx, dy) {
  const scale = Math.min(dx === 0 ? Infinity : (WIDTH / 2 + 2) / Math.abs(dx), dy === 0 ? Infinity : (HEIGHT / 2 + 2) / Math.abs(dy));
  return [x + dx * scale, y + dy * scale];
}

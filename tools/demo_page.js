// Draws what is in #data: speeds with marks, and the topics as they were at the slider's moment.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [1000, 260, 60, 12, 24, 28];
const LAST_STEPS = 14;

function h(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const seconds = (event) => (event.ts_ms - data.began_ms) / 1000;
const events = data.events.filter((event) => typeof event.ts_ms === "number").sort((a, b) => a.ts_ms - b.ts_ms);
const lines = Object.entries(data.speeds);
const points = lines.flatMap(([, line]) => line);
const first = Math.min(0, ...events.slice(0, 1).map(seconds));
const last = Math.max(1, ...points.map(([x]) => x), ...data.marks.map(([x]) => x), ...events.slice(-1).map(seconds));
const most = Math.max(1, ...points.map(([, y]) => y));
const step = 10 ** Math.floor(Math.log10(most)) / 2;
const top = Math.ceil(most / step) * step;
const across = (x) => LEFT + ((x - first) / (last - first)) * (WIDTH - LEFT - RIGHT);
const up = (y) => HEIGHT - BOTTOM - (y / top) * (HEIGHT - TOP - BOTTOM);

function plot() {
  const drawn = h("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Rows per second of each job" });
  for (let i = 0; i <= 4; i += 1) {
    const y = up((top * i) / 4);
    drawn.append(h("svg:line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }), h("svg:text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, Math.round((top * i) / 4).toLocaleString("en-US")));
  }
  const every = Math.max(5, Math.ceil((last - first) / 50) * 5);
  for (let x = 0; x <= last; x += every) drawn.append(h("svg:text", { x: across(x), y: HEIGHT - 8, "text-anchor": "middle" }, `${x} s`));
  data.marks.forEach(([x, text], i) => {
    drawn.append(h("svg:line", { class: "mark", x1: across(x), x2: across(x), y1: TOP, y2: HEIGHT - BOTTOM }), h("svg:text", { x: across(x) + 4, y: TOP + 10 + (i % 4) * 14 }, text));
  });
  lines.forEach(([, line], i) => drawn.append(h("svg:polyline", { class: `speed s${(i % 6) + 1}`, points: line.map(([x, y]) => `${across(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ") })));
  return drawn;
}

function words(event) {
  const subject = event.topic === undefined || event.topic === null ? "" : event.partition === undefined ? event.topic : `${event.topic}-${event.partition}`;
  const parts = [`${seconds(event).toFixed(2).padStart(7)} s`, event.event, subject, event.broker === undefined ? "" : `broker ${event.broker}`, event.to === undefined ? "" : event.from === undefined ? event.to : `${event.from} → ${event.to}`, event.leader === undefined ? "" : `leader ${event.leader === -1 ? "none" : event.leader}`, event.isr === undefined ? "" : `isr ${event.isr}`];
  return parts.filter(Boolean).join("  ");
}

/** Partitions by topic after the first `count` events: {leader, isr, replicas, at}. */
function topicsAfter(count) {
  const topics = new Map();
  for (const event of events.slice(0, count)) {
    if (typeof event.topic !== "string" || typeof event.partition !== "number") continue;
    const partitions = topics.get(event.topic) ?? topics.set(event.topic, new Map()).get(event.topic);
    if (event.to === "NonExistentPartition") {
      partitions.delete(event.partition);
      continue;
    }
    const known = partitions.get(event.partition) ?? { leader: null, isr: [], replicas: [], at: 0 };
    if (event.leader !== undefined && (event.leader !== known.leader || String(event.isr) !== String(known.isr))) known.at = seconds(event);
    for (const name of ["leader", "isr", "replicas"]) if (event[name] !== undefined) known[name] = event[name];
    partitions.set(event.partition, known);
  }
  return topics;
}

const now = h("svg:line", { class: "now", y1: TOP, y2: HEIGHT - BOTTOM });
const slider = h("input", { type: "range", min: first, max: last, step: 0.05, id: "moment", "aria-label": "Moment in seconds" });
const told = h("output", { for: "moment" });
const play = h("button", { type: "button" }, "Play");
const topicsPlace = h("div", { class: "topics" });
const steps = h("ol");

function topicTable([name, partitions], moment) {
  const body = h("tbody");
  for (const [number, state] of [...partitions].sort((a, b) => a[0] - b[0])) {
    const isShort = state.isr.length < state.replicas.length || state.leader === -1;
    const row = h("tr", { class: moment - state.at < 1 ? "changed" : "" }, h("td", {}, String(number)), h("td", {}, state.leader === null ? "–" : state.leader === -1 ? "none" : String(state.leader)), h("td", { class: isShort ? "short" : "" }, state.isr.join(", ")), h("td", {}, state.replicas.join(", ")));
    body.append(row);
  }
  const head = h("tr", {}, ...["Partition", "Leader", "In sync", "Replicas"].map((text) => h("th", { scope: "col" }, text)));
  return h("section", { class: "card" }, h("h3", {}, name), h("table", {}, h("thead", {}, head), body));
}

function show() {
  const moment = Number(slider.value);
  const count = events.findIndex((event) => seconds(event) > moment);
  const seen = count < 0 ? events.length : count;
  told.textContent = `${moment.toFixed(1)} s`;
  now.setAttribute("x1", across(moment));
  now.setAttribute("x2", across(moment));
  const topics = [...topicsAfter(seen)].filter(([name, partitions]) => !name.startsWith("__") && partitions.size).sort();
  topicsPlace.replaceChildren(...(topics.length ? topics.map((topic) => topicTable(topic, moment)) : [h("p", { class: "muted" }, "No topic yet.")]));
  steps.replaceChildren(...events.slice(Math.max(0, seen - LAST_STEPS), seen).map((event) => h("li", {}, words(event))));
}

let timer = null;
function stop() {
  clearInterval(timer);
  timer = null;
  play.textContent = "Play";
}
play.addEventListener("click", () => {
  if (timer !== null) return stop();
  if (Number(slider.value) >= last) slider.value = first;
  play.textContent = "Pause";
  timer = setInterval(() => {
    slider.value = Number(slider.value) + 0.25;
    show();
    if (Number(slider.value) >= last) stop();
  }, 50);
});
slider.addEventListener("input", show);
const drawn = plot();
drawn.append(now);
main.append(
  h("p", { class: "muted" }, `${events.length.toLocaleString("en-US")} steps of the controller, ${lines.length} jobs. Drag the slider, or play it.`),
  h("div", { class: "card" }, h("h2", {}, "Rows per second"), drawn, h("ul", { class: "legend" }, ...lines.map(([name], i) => h("li", { class: `s${(i % 6) + 1}` }, name)))),
  h("div", { class: "replay" }, play, slider, told),
  h("h2", {}, "Topics at this moment"),
  topicsPlace,
  h("h2", {}, "What the controller did last"),
  h("div", { class: "card", tabindex: "0" }, steps),
);
slider.value = last;
show();

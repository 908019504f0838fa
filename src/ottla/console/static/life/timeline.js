// One topic's timeline: lanes with a mark for each step, a slider that plays it, and the states of
// partitions and replicas at that moment.

import { fill, h, setText, svg } from "../lib/dom.js";
import { clock, count } from "../lib/format.js";
import { laneName, lanesOf, statesAfter } from "./story.js";

const STEP = 26;
const LANE = 34;
const PLAY_MS = 900;
const MAX_MARKS = 400;
const MAX_ROWS = 200;

/** {node, show(steps, brokers, {follow})} */
export function timeline(signal) {
  let steps = [];
  let brokers = [];
  let at = 0;
  let isAtEnd = true;
  let playing = null;

  const lanes = h("div", { class: "lanes-box", tabindex: "0", role: "group", "aria-label": "Timeline, one lane for each place" });
  const names = h("div", { class: "lane-names", "aria-hidden": "true" });
  const slider = h("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Step" });
  const back = h("button", { class: "button", type: "button", onclick: () => go(at - 1) }, "Back");
  const next = h("button", { class: "button", type: "button", onclick: () => go(at + 1) }, "Next");
  const play = h("button", { class: "button primary", type: "button", onclick: () => (playing ? stop() : start()) }, "Play");
  const position = h("span", { class: "muted small nowrap num" });
  const said = h("div", { class: "said", "aria-live": "polite" });
  const states = h("div", {});
  const list = h("ol", { class: "life-steps" });
  slider.addEventListener("input", () => go(Number(slider.value)));
  signal.addEventListener("abort", stop);

  function start() {
    if (at >= steps.length) go(1);
    playing = setInterval(() => (at < steps.length ? go(at + 1) : stop()), PLAY_MS);
    play.textContent = "Pause";
  }

  function stop() {
    clearInterval(playing);
    playing = null;
    play.textContent = "Play";
  }

  function go(to) {
    at = Math.max(0, Math.min(to, steps.length));
    isAtEnd = at === steps.length;
    slider.value = String(at);
    back.disabled = at === 0;
    next.disabled = at === steps.length;
    drawMoment();
  }

  function drawMoment() {
    const step = steps[at - 1];
    setText(position, `Step ${count(at)} of ${count(steps.length)}`);
    slider.setAttribute("aria-valuetext", step ? `Step ${at} of ${steps.length}: ${step.title}` : "Before the first step");
    fill(said, step ? [h("div", { class: "row" }, h("span", { class: "badge accent" }, laneName(step.lane)), h("strong", {}, step.title), h("span", { class: "muted small mono" }, clock(step.at_ms))), h("p", {}, step.words)] : h("p", { class: "muted" }, "Before the first step."));
    fill(states, table(statesAfter(steps, at), brokerIds()));
    for (const mark of lanes.querySelectorAll(".life-mark")) {
      const number = Number(mark.dataset.number);
      mark.classList.toggle("is-past", number <= at);
      mark.classList.toggle("is-now", number === at);
    }
    for (const item of list.children) {
      const isNow = Number(item.dataset.number) === at;
      item.classList.toggle("is-now", isNow);
      if (isNow) list.scrollTop = Math.max(0, item.offsetTop - list.offsetTop - list.clientHeight / 3);
    }
    const now = lanes.querySelector(".is-now");
    if (now) lanes.scrollLeft = Math.max(0, Number(now.dataset.x) - lanes.clientWidth / 2);
  }

  function brokerIds() {
    return lanesOf(steps, brokers).filter((lane) => lane.startsWith("broker-")).map((lane) => Number(lane.slice(7)));
  }

  function drawLanes() {
    const rows = lanesOf(steps, brokers);
    const first = Math.max(0, steps.length - MAX_MARKS);
    const shown = steps.slice(first);
    const width = (shown.length + 1) * STEP;
    const height = rows.length * LANE;
    const y = (lane) => rows.indexOf(lane) * LANE + LANE / 2;
    const points = shown.map((step, i) => [(i + 0.7) * STEP, y(step.lane)]);
    fill(names, rows.map((lane) => h("div", { class: "lane-name" }, laneName(lane))));
    fill(
      lanes,
      svg(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, width, height, class: "lanes", role: "img", "aria-label": `${shown.length} steps in ${rows.length} lanes; the list below has them in words` },
        rows.map((lane) => svg("line", { x1: 0, x2: width, y1: y(lane), y2: y(lane), class: "lane-line" })),
        svg("polyline", { points: points.map((point) => point.join(",")).join(" "), class: "thread" }),
        points.map(([cx, cy], i) => {
          const mark = svg("circle", { cx, cy, r: 7, class: "life-mark", onclick: () => go(first + i + 1) }, svg("title", {}, shown[i].title));
          mark.dataset.number = String(first + i + 1);
          mark.dataset.x = String(cx);
          return mark;
        }),
      ),
    );
    fill(
      list,
      shown.map((step, i) => {
        const item = h("li", {}, h("button", { type: "button", class: "step-button", onclick: () => go(first + i + 1) }, h("span", { class: "mono small muted step-time" }, since(steps[0], step)), h("span", { class: "badge" }, laneName(step.lane)), h("span", {}, step.title)), h("p", { class: "small muted step-words" }, step.words));
        item.dataset.number = String(first + i + 1);
        return item;
      }),
    );
  }

  const node = h(
    "div",
    { class: "stack" },
    h("section", { class: "card" }, h("h2", {}, "Timeline"), h("div", { class: "lanes-row" }, names, lanes), h("div", { class: "row player" }, back, play, next, h("div", { class: "grow slider-box" }, slider), position), said),
    h("section", { class: "card" }, h("h2", {}, "Partitions and replicas at that moment"), states),
    h("section", { class: "card" }, h("h2", {}, "All steps in words"), list),
  );
  return {
    node,
    show(newSteps, newBrokers) {
      steps = newSteps;
      brokers = newBrokers;
      slider.max = String(steps.length);
      drawLanes();
      go(isAtEnd ? steps.length : at);
    },
  };
}

function since(first, step) {
  const ms = step.at_ms - first.at_ms;
  return ms < 10000 ? `+${count(ms)} ms` : `+${(ms / 1000).toFixed(1)} s`;
}

function short(state) {
  return state.replace(/Partition$|Replica$/, "").replace(/^Replica/, "").replace(/^Deletion/, "Deletion ").replace("NonExistent", "Gone");
}

function kindOf(state) {
  if (/^Online/.test(state)) return "good";
  if (/^Offline|Ineligible/.test(state)) return "bad";
  return /^New/.test(state) ? "accent" : "";
}

function table(partitions, brokers) {
  if (partitions.size === 0) return h("p", { class: "muted" }, "The controller does not know the topic's partitions at this moment.");
  const rows = [...partitions].slice(0, MAX_ROWS);
  return h(
    "div",
    { class: "table-box", tabindex: "0", role: "group", "aria-label": "States of partitions and replicas" },
    h(
      "table",
      { class: "data states" },
      h("thead", {}, h("tr", {}, h("th", { class: "num" }, "Partition"), h("th", {}, "State"), h("th", { class: "num" }, "Leader"), brokers.map((id) => h("th", {}, `Broker ${id}`)))),
      h(
        "tbody",
        {},
        rows.map(([number, one]) =>
          h(
            "tr",
            {},
            h("td", { class: "num" }, count(number)),
            h("td", {}, chip(one.state)),
            h("td", { class: "num" }, one.leader === null || one.leader < 0 ? "–" : String(one.leader)),
            brokers.map((id) => h("td", {}, replica(one.replicas.get(id)))),
          ),
        ),
        partitions.size > MAX_ROWS ? h("tr", {}, h("td", { class: "none", colspan: String(3 + brokers.length) }, `and ${count(partitions.size - MAX_ROWS)} more`)) : null,
      ),
    ),
  );
}

function chip(state) {
  return state ? h("span", { class: `badge ${kindOf(state)}` }, short(state)) : h("span", { class: "muted" }, "–");
}

function replica(one) {
  if (!one) return h("span", { class: "muted" }, "–");
  return [one.state ? chip(one.state) : null, one.folder ? h("span", { class: "small muted folder" }, one.folder === "made" ? " folder" : ` folder ${one.folder}`) : null];
}

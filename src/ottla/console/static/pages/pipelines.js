// Running pipelines: topics and jobs as a graph from left to right, and how each job goes.

import { fill, h, path, svg } from "../lib/dom.js";
import { count, duration, plural, timestamp } from "../lib/format.js";
import { live } from "../lib/live.js";
import { commandLine, empty, notice, problemPlace } from "../lib/notices.js";

export const title = "Pipelines";
export const question = "Which Spark pipelines run, and how do they go?";

const NODE = { width: 140, height: 54, across: 30, down: 16 };
const MOST_NODES = 200;
const BADGES = { running: "good", failed: "bad", restarting: "warn", waiting: "warn" };

export function mount(root, { signal, session }) {
  const problem = problemPlace();
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Looking for pipelines…"));
  fill(root, problem.node, place);
  let shape = null;
  let views = new Map();
  live("pipelines", {}, {
    signal,
    problem: (error) => problem.say(error),
    mended: () => problem.say(null),
    whole: (found) => {
      // Figures change every second, the graph hardly ever: only what is new is drawn anew.
      const now = JSON.stringify([found.problems, found.hidden, found.pipelines.map((one) => [one.pid, one.name, one.spark_ui, one.jobs.map((job) => [job.name, job.reads, job.writes, job.dead_letter])])]);
      if (now !== shape) {
        shape = now;
        views = new Map(found.pipelines.map((one) => [one.pid, pipelineView(one, session)]));
        fill(place, ...notices(found), ...[...views.values()].map((view) => view.node));
      }
      for (const one of found.pipelines) views.get(one.pid).update(one);
    },
  });
}

function notices(found) {
  const told = found.problems.map((words) => notice("warn", words));
  if (found.hidden) told.push(notice("info", `${plural(found.hidden, "pipeline uses", "pipelines use")} topics that you may not see.`));
  if (!found.pipelines.length)
    told.push(
      empty(
        "No pipeline runs on this machine by the user of this console.",
        h("p", {}, "Start one, and it appears here by itself:"),
        commandLine("ottla pipeline run examples/clicks.yaml --bootstrap-server 127.0.0.1:9092"),
        h("p", {}, "One on another machine serves its metrics; name its address when you start the console:"),
        commandLine("ottla console --pipeline HOST:PORT"),
      ),
    );
  return told;
}

function pipelineView(pipeline, session) {
  const graph = graphView(pipeline);
  const body = h("tbody", {});
  const since = h("span", { class: "muted small" });
  const elsewhere = pipeline.bootstrap_servers && pipeline.bootstrap_servers !== session.bootstrap;
  const columns = ["Job", "State", "Rows in", "Out", "Rows/s", "Lag", "Dead letters", "Batch", "Restarts", "Last error"];
  const node = h(
    "section",
    { class: "card", "aria-label": `Pipeline ${pipeline.name}` },
    h("div", { class: "row" }, h("h2", { class: "grow" }, pipeline.name), since, pipeline.spark_ui ? h("a", { href: pipeline.spark_ui, target: "_blank", rel: "noreferrer" }, "Spark's own pages") : h("span", { class: "muted small" }, "Spark's own pages are off: spark.ui.enabled")),
    elsewhere ? h("p", { class: "muted small" }, "Its brokers: ", h("span", { class: "mono" }, pipeline.bootstrap_servers)) : null,
    graph.node,
    h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": `Jobs of ${pipeline.name}` }, h("table", { class: "data plain" }, h("thead", {}, h("tr", {}, ...columns.map((name, i) => h("th", { scope: "col", class: i > 1 && i < 9 ? "num" : "" }, name)))), body)),
  );
  return {
    node,
    update(now) {
      const where = now.address ? `at ${now.address}` : `pid ${now.pid}`;
      since.textContent = `${where}, since ${timestamp(now.started_ms).slice(0, 19)}`;
      graph.update(now);
      fill(body, ...now.jobs.map(jobRow));
    },
  };
}

function jobRow(job) {
  const figures = [count(job.rows_in), count(job.rows_out), count(Math.round(job.rows_per_s)), count(job.lag), count(job.dead_letters), job.batch_s === null ? "–" : duration(job.batch_s * 1000), count(job.restarts)];
  return h(
    "tr",
    {},
    h("td", {}, job.name),
    h("td", {}, h("span", { class: `badge ${BADGES[job.state] ?? ""}` }, job.state)),
    ...figures.map((text, i) => h("td", { class: `num ${i === 4 && job.dead_letters > 0 ? "bad-text" : ""}` }, text)),
    h("td", { class: "words" }, job.error ?? ""),
  );
}

// The graph

function graphView(pipeline) {
  const nodes = new Map();
  const edges = [];
  const node = (id, facts) => nodes.get(id) ?? nodes.set(id, { id, layer: 0, ...facts }).get(id);
  const topic = (name) => node(`topic ${name}`, { kind: "topic", text: name, href: path`/topics/${name}` });
  for (const job of pipeline.jobs) {
    const own = node(`job ${job.name}`, { kind: "job", text: job.name, job: job.name });
    for (const name of job.reads) edges.push([topic(name), own, false]);
    for (const name of job.writes) edges.push([own, topic(name), false]);
    if (job.dead_letter) edges.push([own, topic(job.dead_letter), true]);
    if (job.outside) {
      const outside = node(`outside ${job.kind} ${job.outside}`, { kind: "outside", text: job.outside, small: "folder" });
      edges.push(job.reads.length ? [own, outside, false] : [outside, own, false]);
    }
  }
  if (nodes.size > MOST_NODES) return { node: h("p", { class: "muted" }, "Too many topics and jobs to draw."), update() {} };
  placeInLayers([...nodes.values()], edges);
  const width = Math.max(0, ...[...nodes.values()].map((one) => one.x + NODE.width)) + 8;
  const height = Math.max(0, ...[...nodes.values()].map((one) => one.y + NODE.height)) + 8;
  const drawn = new Map([...nodes.values()].map((one) => [one.id, nodeView(one)]));
  const picture = svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Topics and jobs of ${pipeline.name}` }, ...edges.map(edgeNode), ...[...drawn.values()].map((view) => view.node));
  // Shrinks a little where that makes it fit; what is wider scrolls in its own box.
  picture.style.minWidth = `${Math.round(width * 0.85)}px`;
  return {
    node: h("div", { class: "graph-box", tabindex: "0", role: "region", "aria-label": `Graph of ${pipeline.name}` }, picture),
    update(now) {
      for (const job of now.jobs) drawn.get(`job ${job.name}`)?.update(job);
    },
  };
}

/** Each node right of all that lead to it; a ring, which no sound pipeline has, ends the pushing. */
function placeInLayers(nodes, edges) {
  for (let turn = 0; turn < nodes.length; turn += 1) {
    let isChanged = false;
    for (const [from, to] of edges)
      if (to.layer <= from.layer && from.layer + 1 < nodes.length) {
        to.layer = from.layer + 1;
        isChanged = true;
      }
    if (!isChanged) break;
  }
  const rows = new Map();
  const before = (one) => edges.filter(([, to]) => to === one).map(([from]) => from.row ?? 0);
  const middle = (one) => {
    const found = before(one);
    return found.length ? found.reduce((a, b) => a + b, 0) / found.length : 0;
  };
  for (const layer of [...new Set(nodes.map((one) => one.layer))].sort((a, b) => a - b)) {
    const own = nodes.filter((one) => one.layer === layer).sort((a, b) => middle(a) - middle(b));
    own.forEach((one, row) => (one.row = row));
    rows.set(layer, own.length);
  }
  const tallest = Math.max(0, ...rows.values());
  const columns = [...rows.keys()].sort((a, b) => a - b);
  for (const one of nodes) {
    one.x = 8 + columns.indexOf(one.layer) * (NODE.width + NODE.across);
    one.y = 8 + (one.row + (tallest - rows.get(one.layer)) / 2) * (NODE.height + NODE.down);
  }
}

function edgeNode([from, to, isDead]) {
  const [x1, y1, x2, y2] = [from.x + NODE.width, from.y + NODE.height / 2, to.x, to.y + NODE.height / 2];
  const bend = Math.max(15, Math.abs(x2 - x1) / 2);
  return svg("path", { class: `graph-edge ${isDead ? "is-dead" : ""}`, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
}

function nodeView(one) {
  const small = svg("text", { class: "graph-small", x: one.x + 10, y: one.y + 41 }, one.small ?? one.kind);
  const box = svg("rect", { x: one.x, y: one.y, width: NODE.width, height: NODE.height, rx: one.kind === "topic" ? 27 : 6 });
  const short = one.text.length > 17 ? `${one.text.slice(0, 16)}…` : one.text;
  const left = one.kind === "topic" ? 20 : 10;
  small.setAttribute("x", one.x + left);
  const group = svg("g", { class: `graph-${one.kind}` }, box, svg("title", {}, one.text), svg("text", { x: one.x + left, y: one.y + 22 }, short), small);
  const node = one.href ? svg("a", { href: one.href, "aria-label": `Topic ${one.text}` }, group) : group;
  return {
    node,
    update(job) {
      const lag = job.lag === null ? "" : `, lag ${count(job.lag)}`;
      const words = job.state === "running" ? `${count(Math.round(job.rows_per_s))} rows/s${lag}` : job.state;
      if (small.textContent !== words) small.textContent = words;
      group.classList.toggle("graph-failed", job.state === "failed");
      small.classList.toggle("graph-bad", job.state === "failed");
    },
  };
}

// Several lines over the last minutes, with their names below and a scale beside.

import { fill, h, svg } from "./dom.js";
import { count, duration } from "./format.js";

const WIDTH = 600;
const HEIGHT = 150;

/**
 * lineChart({label, points, stepMs}) -> {node, draw(lines)}
 * lines: [{name, values: [number | null]}], the newest value last; up to six of them.
 */
export function lineChart({ label, points, stepMs }) {
  const grid = [0.25, 0.5, 0.75].map((part) => svg("path", { class: "grid", d: `M0 ${HEIGHT * part}H${WIDTH}` }));
  const paths = Array.from({ length: 6 }, () => svg("path", {}));
  const picture = svg("svg", { class: "lag-chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...grid, ...paths);
  const most = h("span", {});
  const span = h("span", {}, `last ${duration(points * stepMs)}`);
  const legend = h("ul", { class: "chart-legend" });
  paths.forEach((path, i) => (path.style.stroke = `var(--series-${i + 1})`));
  let named = "";
  return {
    node: h("div", {}, h("div", { class: "chart-axis" }, most, span), picture, h("div", { class: "chart-axis" }, h("span", {}, "0"), h("span", {}, "now")), legend),
    draw(lines) {
      const highest = Math.max(1, ...lines.flatMap((line) => line.values.filter((v) => v !== null)));
      most.textContent = count(highest);
      paths.forEach((path, i) => path.setAttribute("d", lines[i] ? outline(lines[i].values, highest, points) : ""));
      const names = JSON.stringify(lines.map((line) => line.name));
      if (names === named) return;
      named = names;
      fill(legend, ...lines.map((line, i) => h("li", { class: "foreign" }, h("span", { class: "dot", style: { background: `var(--series-${i + 1})` } }), line.name)));
    },
  };
}

function outline(values, highest, points) {
  const step = WIDTH / (points - 1);
  const left = WIDTH - (values.length - 1) * step;
  let path = "";
  let isUp = true;
  values.forEach((value, i) => {
    if (value === null) {
      isUp = true;
      return;
    }
    const x = (left + i * step).toFixed(1);
    const y = (HEIGHT - 2 - (value / highest) * (HEIGHT - 6)).toFixed(1);
    // A single value is a short line: a point would not be seen.
    path += isUp ? `M${x} ${y}h0.1` : `L${x} ${y}`;
    isUp = false;
  });
  return path;
}

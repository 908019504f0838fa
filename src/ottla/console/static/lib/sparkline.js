// A small line of the last values.

import { svg } from "./dom.js";

/** sparkline({label, points: 60}) -> {node, push(value | null)}; null leaves a gap. */
export function sparkline({ label, points = 60, width = 120, height = 28 }) {
  const values = [];
  const line = svg("path", { class: "spark-line", fill: "none" });
  const area = svg("path", { class: "spark-area" });
  const title = svg("title", {}, label);
  const node = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none" }, title, area, line);
  const draw = () => {
    const most = Math.max(1e-9, ...values.filter((v) => v !== null));
    const step = width / (points - 1);
    const left = width - (values.length - 1) * step;
    let path = "";
    let isDown = true;
    values.forEach((value, i) => {
      if (value === null) {
        isDown = true;
        return;
      }
      path += `${isDown ? "M" : "L"}${(left + i * step).toFixed(1)} ${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`;
      isDown = false;
    });
    line.setAttribute("d", path);
    area.setAttribute("d", path && !values.includes(null) ? `${path}L${width} ${height}L${left.toFixed(1)} ${height}Z` : "");
  };
  return {
    node,
    push(value) {
      values.push(value);
      if (values.length > points) values.shift();
      draw();
    },
  };
}

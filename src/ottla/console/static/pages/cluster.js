import { h, fill } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { live } from "../lib/live.js";
import { problemPlace } from "../lib/notices.js";

export const title = "Cluster";
export const question = "Is all well?";

export function mount(root, { signal }) {
  const problem = problemPlace();
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Asking the cluster…"));
  fill(root, problem.node, place);
  live("cluster", {}, {
    signal,
    problem: (error) => problem.say(error),
    mended: () => problem.say(null),
    whole: (cluster) => fill(place, h("dl", { class: "stats" }, ...stats(cluster))),
  });
}

function stats(cluster) {
  const all = [
    ["Brokers", cluster.brokers.length],
    ["Topics", cluster.topics],
    ["Partitions", cluster.partitions],
    ["Under-replicated", cluster.under_replicated],
    ["Without a leader", cluster.without_leader],
  ];
  return all.map(([name, value]) => h("div", { class: "stat" }, h("dt", {}, name), h("dd", {}, count(value))));
}

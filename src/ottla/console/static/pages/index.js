// The pages, in the order of the menu. A page module exports
//   title, question (what it answers) and mount(root, {params, query, signal}):
// it fills `root`, and stops all it started when `signal` is aborted.

export const PAGES = [
  { name: "Cluster", href: "/", paths: ["/"], load: () => import("./cluster.js") },
  { name: "Life of a topic", href: "/life", paths: ["/life", "/life/:name"], load: () => import("./life.js") },
];

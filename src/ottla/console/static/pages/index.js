// The pages, in the order of the menu. A page module exports
//   title, question (what it answers) and mount(root, {params, query, signal}):
// it fills `root`, and stops all it started when `signal` is aborted.

export const PAGES = [
  { name: "Cluster", href: "/", paths: ["/"], load: () => import("./cluster.js") },
  { name: "Pipelines", href: "/pipelines", paths: ["/pipelines"], load: () => import("./pipelines.js") },
  { name: "Znodes", href: "/znodes", paths: ["/znodes"], load: () => import("./znodes.js") },
  { name: "Rights", href: "/rights", paths: ["/rights", "/rights/:section"], load: () => import("./rights.js") },
];

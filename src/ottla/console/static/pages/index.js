// The pages, in the order of the menu. A page module exports
//   title, question (what it answers) and mount(root, {params, query, signal}):
// it fills `root`, and stops all it started when `signal` is aborted. `heading(params)` is its
// headline where that is not the title.

function topicPage() {
  if (location.pathname === "/create-topic") return import("./create_topic.js");
  if (location.pathname === "/deleted-topics") return import("./deleted_topics.js");
  return import("./topics.js");
}

export const PAGES = [
  { name: "Cluster", href: "/", paths: ["/"], load: () => import("./cluster.js") },
  { name: "Topics", href: "/topics", paths: ["/topics", "/topics/:name", "/create-topic", "/deleted-topics"], load: (params) => (params.name ? import("./topic.js") : topicPage()) },
  { name: "Placement", href: "/placement", paths: ["/placement"], load: () => import("./placement.js") },
  { name: "Life of a topic", href: "/life", paths: ["/life", "/life/:name"], load: () => import("./life.js") },
  { name: "Messages", href: "/messages", paths: ["/messages", "/messages/:name"], load: () => import("./messages.js") },
  { name: "Groups", href: "/groups", paths: ["/groups", "/groups/:id"], load: () => import("./groups.js") },
  { name: "Pipelines", href: "/pipelines", paths: ["/pipelines"], load: () => import("./pipelines.js") },
  { name: "Znodes", href: "/znodes", paths: ["/znodes"], load: () => import("./znodes.js") },
  { name: "Rights", href: "/rights", paths: ["/rights", "/rights/:section"], load: () => import("./rights.js") },
];

// The store's tree, read only. The node that is looked at is in the address: ?path=/brokers/ids/0

import { get } from "../lib/api.js";
import { debounced, fill, h } from "../lib/dom.js";
import { bytes, count, plural, timestamp } from "../lib/format.js";
import { commandLine, empty, failure, notice } from "../lib/notices.js";

export const title = "Znodes";
export const question = "What is in the store?";

const PER_PAGE = 200;

export async function mount(root, { query, signal }) {
  const path = query.get("path") ?? "/";
  const ask = (more) => get("/znodes", { path, limit: PER_PAGE, ...more }, { signal });
  fill(root, h("p", { class: "muted" }, "Asking the store…"));
  let node;
  try {
    node = await ask({});
  } catch (error) {
    if (error.name === "AbortError") return;
    const told = error.code === "NO_STORE" ? notice("info", error.message) : failure(error);
    fill(root, path === "/" ? told : h("div", { class: "stack" }, trail(path), told));
    return;
  }
  fill(root, h("div", { class: "stack" }, trail(node.path), h("div", { class: "znode" }, childrenCard(node, ask), nodeCard(node))));
}

function href(path) {
  return path === "/" ? "/znodes" : `/znodes?${new URLSearchParams({ path })}`;
}

function trail(path) {
  const names = path.split("/").filter(Boolean);
  const here = names.map((name, i) => [name, `/${names.slice(0, i + 1).join("/")}`]);
  return h(
    "nav",
    { class: "trail mono", "aria-label": "Path" },
    h("a", { href: href("/"), "aria-current": names.length ? null : "page" }, "/"),
    ...here.map(([name, to], i) => [i ? "/" : null, h("a", { href: href(to), "aria-current": i === here.length - 1 ? "page" : null }, name)]),
  );
}

function childrenCard(node, ask) {
  const list = h("ul", { class: "znode-list" });
  const more = h("button", { class: "button", type: "button" }, "More");
  const told = h("p", { class: "muted small", role: "status" });
  const search = h("input", { type: "search", "aria-label": "Search children", placeholder: "Search children" });
  const problem = h("div", {});
  let matching = node.matching;
  const join = (name) => (node.path === "/" ? `/${name}` : `${node.path}/${name}`);
  const add = (names) => {
    for (const name of names) list.append(h("li", {}, h("a", { class: "mono", href: href(join(name)) }, name)));
    more.hidden = list.childElementCount >= matching;
    told.textContent = list.childElementCount < matching ? `${count(list.childElementCount)} of ${plural(matching, "child", "children")}` : plural(matching, "child", "children");
  };
  const load = async (offset) => {
    try {
      const found = await ask({ offset, match: search.value.trim() });
      matching = found.matching;
      if (offset === 0) fill(list);
      fill(problem);
      add(found.children ?? []);
    } catch (error) {
      if (error.name !== "AbortError") fill(problem, failure(error));
    }
  };
  more.addEventListener("click", () => load(list.childElementCount));
  search.addEventListener("input", debounced(200, () => load(0)));
  const heading = h("h2", {}, "Children");
  if (node.children === null) return h("section", { class: "card" }, heading, h("p", {}, "The store does not let this console see them."));
  if (!node.stat.children) return h("section", { class: "card" }, heading, h("p", { class: "muted" }, "None."));
  add(node.children);
  return h("section", { class: "card" }, heading, node.stat.children > 20 ? search : null, problem, list, told, more);
}

function nodeCard(node) {
  const stat = node.stat;
  if (stat === null) return h("section", { class: "card" }, h("h2", {}, "Data"), dataNode(null));
  const facts = [
    ["Size", `${bytes(stat.data_bytes)}`],
    ["Version", `${count(stat.version)} (children ${count(stat.children_version)}, ACL ${count(stat.acl_version)})`],
    ["Created", `${timestamp(stat.created_ms)}, ${stat.created_id}`],
    ["Changed", `${timestamp(stat.modified_ms)}, ${stat.modified_id}`],
    ["Children changed", stat.children_id],
    ["Lives", stat.ephemeral_owner ? `as long as the session ${stat.ephemeral_owner}` : "until it is deleted"],
  ];
  return h(
    "section",
    { class: "card znode-data" },
    h("h2", {}, "Data"),
    dataNode(node.data),
    h("h3", {}, "Stat"),
    h("dl", { class: "facts" }, ...facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    h("h3", {}, "The same by command"),
    commandLine(node.command),
  );
}

function dataNode(data) {
  if (data === null) return notice("info", "The store does not let this console read it. --zk-credentials FILE gives the console a user of the store, on a cluster that asks nobody to log in.");
  if (data.kind === "none") return empty("No data (null).");
  if (data.kind === "empty") return empty("No bytes.");
  return h(
    "div",
    {},
    data.is_hidden ? h("p", { class: "muted small" }, "What is as good as a password is not shown.") : null,
    h("pre", { class: "znode-text mono", tabindex: "0", role: "region", "aria-label": `Data as ${data.kind}` }, data.text),
    data.is_cut ? h("p", { class: "muted small" }, "Only the beginning: the command below has it all.") : null,
  );
}

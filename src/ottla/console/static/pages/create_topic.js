import { get } from "../lib/api.js";
import { confirmWrite } from "../lib/confirm.js";
import { debounced, fill, h, path } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { plural } from "../lib/format.js";
import { problemPlace } from "../lib/notices.js";
import { navigate } from "../lib/router.js";
import { placementDrawing } from "./placement_drawing.js";

export const title = "Create a topic";
export const question = "Where will its replicas go?";

const PLACED_BY = [
  { value: "cluster", label: "By the cluster, from a start of its own" },
  { value: "drawn", label: "Exactly as drawn" },
  { value: "hand", label: "By hand" },
];

export async function mount(root, { signal, side }) {
  const [catalogue, brokers] = await Promise.all([get("/topic-configs", {}, { signal }), countBrokers(signal)]);
  const problem = problemPlace();
  const name = field({ name: "name", label: "Name", help: "Letters, digits, dot, underscore and hyphen; at most 249.", attributes: { required: true } });
  const partitions = field({ name: "partitions", label: "Partitions", type: "number", value: "3", help: "Empty: the cluster's default.", attributes: { min: 1, step: 1 } });
  const factor = field({ name: "replication_factor", label: "Replication factor", type: "number", value: String(Math.max(1, Math.min(3, brokers))), help: "Empty: the cluster's default.", attributes: { min: 1, step: 1 } });
  const placed = field({ name: "placed", label: "Replicas are placed", type: "select", options: PLACED_BY, value: "cluster" });
  const hand = field({ name: "assignment", label: "Brokers of each partition", type: "textarea", help: "A line for each partition, its preferred leader first: 1, 2, 3", attributes: { spellcheck: "false" } });
  const chosen = configChooser(catalogue);
  const drawing = placementDrawing();
  const honest = h("p", { class: "muted small" });
  const button = h("button", { class: "button primary", type: "submit" }, "Create…");
  const form = h(
    "form",
    { class: "card", novalidate: true },
    name.node,
    h("div", { class: "pair" }, partitions.node, factor.node),
    placed.node,
    hand.node,
    chosen.node,
    problem.node,
    h("div", { class: "actions" }, h("a", { class: "button", href: "/topics" }, "Cancel"), button),
  );
  fill(side);
  fill(root, h("div", { class: "create" }, form, h("section", { class: "card", "aria-label": "The placement, drawn" }, h("h2", {}, "The placement, drawn"), honest, drawing.node)));

  const fields = () => [name, partitions, factor, placed, hand, ...chosen.fields()];
  const arrange = () => {
    const how = placed.value();
    hand.node.hidden = how !== "hand";
    partitions.node.parentNode.hidden = how === "hand";
    honest.textContent = {
      cluster: "An example: the controller draws a start index and a shift of its own, and Apache Kafka in KRaft mode places by another rule. Choose “Exactly as drawn” to get this one.",
      drawn: "This assignment is sent along: the topic gets exactly these replicas.",
      hand: "As written by hand.",
    }[how];
    drawing.setControls(how !== "hand");
  };
  let asked = 0;
  const redraw = async () => {
    const own = (asked += 1);
    arrange();
    if (placed.value() === "hand") {
      const read = readAssignment(hand.value());
      drawing.showAssignment(read.error ? [] : read.assignment);
      return;
    }
    try {
      const drawn = await get("/placement-steps", { partitions: partitions.value() ?? 1, replication_factor: factor.value() ?? 1, ...drawing.numbers() }, { signal });
      if (own !== asked) return; // an older answer than the one that is there
      drawing.show(drawn);
      partitions.setError(null);
      factor.setError(null);
    } catch (error) {
      if (error.name === "AbortError" || own !== asked) return;
      drawing.say(error.message);
      showAtField([partitions, factor], error);
    }
  };
  const later = debounced(150, () => signal.aborted || redraw());
  for (const one of [partitions, factor, placed, hand]) one.input.addEventListener("input", later);
  drawing.onChange(redraw);
  // What was wrong is another thing now.
  form.addEventListener("input", (event) => fields().find((one) => one.input === event.target)?.setError(null));

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.say(null);
    for (const one of fields()) one.setError(null);
    const how = placed.value();
    const body = { name: name.value(), configs: chosen.values() };
    if (how === "hand") {
      const read = readAssignment(hand.value());
      if (read.error) return hand.setError(read.error), hand.input.focus();
      body.assignment = read.assignment;
    } else if (how === "drawn") {
      body.assignment = drawing.assignment();
      if (!body.assignment) return problem.say({ message: "There is no drawing yet: mend the numbers first." });
    } else Object.assign(body, { partitions: partitions.value(), replication_factor: factor.value() });
    button.disabled = true;
    try {
      const made = await confirmWrite({ title: `Create ${body.name}`, method: "POST", path: "/topics", body, verb: "Create", describe: described });
      if (made && !signal.aborted) navigate(path`/topics/${made.name}`);
    } catch (error) {
      if (!showAtField(fields(), error)) problem.say(error);
    } finally {
      button.disabled = false;
    }
  });
  arrange();
  name.input.focus();
  await redraw();
}

/** 0 where the cluster does not say: then the drawing tells why. */
async function countBrokers(signal) {
  try {
    return (await get("/placement-steps", { partitions: 1, replication_factor: 1 }, { signal })).places.length;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return 0;
  }
}

function described(made) {
  const numbers = made.partitions > 0 ? `${plural(made.partitions, "partition")} with ${plural(made.replication_factor, "replica")} each.` : "";
  return h("p", {}, `The cluster has checked it, and would take it. ${numbers}`);
}

/** "1,2\n2,3" -> {assignment: [[1,2],[2,3]]} or {error} */
export function readAssignment(text) {
  const lines = text.trim().split("\n");
  const assignment = [];
  for (const [i, line] of lines.entries()) {
    const ids = line.trim().split(/[\s,:]+/).filter(Boolean);
    const wrong = ids.find((id) => !/^\d{1,9}$/.test(id));
    if (wrong !== undefined) return { error: `Line ${i + 1}: “${wrong}” is no broker id.` };
    if (!ids.length) return { error: text.trim() ? `Line ${i + 1} names no broker.` : "Name the brokers of each partition, a line for each." };
    assignment.push(ids.map(Number));
  }
  return { assignment };
}

/** Configs chosen by name from the catalogue, or any that this console does not know. */
function configChooser(catalogue) {
  const known = new Map(catalogue.map((one) => [one.name, one]));
  const rows = new Map();
  const list = h("datalist", { id: "config-names" }, ...catalogue.map((one) => h("option", { value: one.name })));
  const pick = field({ name: "configs", label: "Add a config", help: "Begin to type a name.", attributes: { list: "config-names" } });
  const place = h("div", {});
  const about = (one) => (one ? [one.documentation, one.bounds ? ` Valid: ${one.bounds}.` : "", one.default === null ? "" : ` Default: ${one.default || "empty"}.`].join("") : "Not in this console's catalogue: the cluster will say whether it knows it.");
  const add = () => {
    const name = pick.value().trim();
    if (!name || rows.has(name)) return;
    const one = known.get(name);
    const value = field({ name: `configs.${name}`, label: name, help: about(one), type: one?.choices ? "select" : "text", options: one?.choices ?? [], value: one?.default ?? "" });
    const remove = h("button", { class: "button small", type: "button", "aria-label": `Remove ${name}` }, "Remove");
    const node = h("div", { class: "config-row" }, value.node, remove);
    remove.addEventListener("click", () => {
      rows.delete(name);
      node.remove();
      pick.input.focus();
    });
    rows.set(name, value);
    place.append(node);
    pick.input.value = "";
    pick.setError(null);
    value.input.focus();
  };
  pick.input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    add();
  });
  const button = h("button", { class: "button", type: "button", onclick: add }, "Add");
  return {
    node: h("fieldset", { class: "configs-chosen" }, h("legend", {}, "Configs"), place, h("div", { class: "config-pick" }, pick.node, button), list),
    fields: () => [...rows.values(), pick],
    values: () => Object.fromEntries([...rows].map(([name, one]) => [name, one.value()])),
  };
}

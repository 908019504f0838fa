// Another name, another number of partitions: dialogs of a topic's page, and resizes under way.

import { get } from "../lib/api.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { fill, h, link, path } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { count, duration, plural } from "../lib/format.js";
import { commandLine, notice, problemPlace } from "../lib/notices.js";
import { navigate } from "../lib/router.js";

const RESIZES_EVERY_MS = 2000;
const PHASES = {
  copying: "its records are being copied, and it serves as before",
  fenced: "it is fenced: producers wait while the last records are copied",
  moving: "the name changes hands",
  carrying: "the positions of its groups are carried over",
};

/** Says which resizes are under way, of all topics or of one, for as long as the page is there. */
export function resizesPlace(signal, name = null) {
  const place = h("div", { class: "stack resizes" });
  let told = "";
  let timer = null;
  const load = async () => {
    let found;
    try {
      found = await get("/resizes", {}, { signal });
    } catch (error) {
      if (error.name === "AbortError") return;
      found = { is_known: true, resizes: null };
    }
    if (!found.is_known || signal.aborted) return;
    const own = found.resizes?.filter((one) => name === null || one.topic === name);
    // What a reader is about to press stays where it is.
    const words = JSON.stringify(own?.map((one) => [one.topic, one.phase, one.partitions]));
    if (own && words !== told) {
      told = words;
      fill(place, ...own.map((one) => resizeNotice(one, name === null)));
    }
    timer = setTimeout(load, RESIZES_EVERY_MS);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  load();
  return place;
}

function resizeNotice(one, isLinked) {
  const subject = isLinked ? link(path`/topics/${one.topic}`, one.topic) : "The topic";
  const since = duration(Math.max(0, Date.now() - one.begun_ms));
  const abort = ["copying", "fenced"].includes(one.phase) ? h("div", { class: "notice-action" }, h("button", { class: "button small", type: "button", "aria-label": `Give up the resize of ${one.topic}…`, onclick: () => giveUp(one) }, "Give up…")) : null;
  return notice(one.phase === "fenced" ? "warn" : "info", [subject, ` gets ${plural(one.partitions, "partition")} (begun ${since} ago): ${PHASES[one.phase] ?? one.phase}.`], { more: abort });
}

async function giveUp(one) {
  try {
    await confirmWrite({
      title: `Give up the resize of ${one.topic}`,
      method: "DELETE",
      path: path`/topics/${one.topic}/resize`,
      verb: "Give up",
      danger: true,
      describe: () => h("p", {}, `${one.topic} stays as it was. The copy that was begun is removed, and a command that is at work on it ends.`),
    });
  } catch (error) {
    await refused("It cannot be given up", error);
  }
}

function refused(title, error) {
  return modal(title, (close) => [notice("bad", error.message), h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Close"))]);
}

export async function rename(name, signal) {
  const done = await modal(`Another name for ${name}`, (close) => {
    const wanted = field({ name: "new_name", label: "New name", value: name, attributes: { required: true } });
    const problem = problemPlace();
    const go = h("button", { class: "button primary", type: "submit" }, "See what happens…");
    const form = h("form", { novalidate: true }, wanted.node, problem.node, h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Cancel"), go));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.say(null);
      wanted.setError(null);
      if (wanted.value() === name) return wanted.setError("That is its name already.");
      go.disabled = true;
      try {
        const answer = await confirmWrite({ title: `Rename ${name} to ${wanted.value()}`, method: "POST", path: path`/topics/${name}/name`, body: { new_name: wanted.value() }, verb: "Rename", describe: () => describeRename(name) });
        if (answer) close(answer);
      } catch (error) {
        if (!showAtField([wanted], error)) problem.say(error);
      } finally {
        go.disabled = false;
      }
    });
    setTimeout(() => wanted.input.select());
    return form;
  });
  if (!done || signal.aborted) return;
  if (done.acls.length) {
    await modal(`It is called ${done.name} now`, (close) => [
      notice("warn", `These ACLs are for ${name} and do not hold for ${done.name}. Add them for ${done.name} and remove the old ones:`),
      h("ul", { class: "small" }, ...done.acls.map((one) => h("li", {}, one))),
      h("div", { class: "actions" }, h("button", { class: "button primary", type: "button", onclick: () => close() }, "Go on")),
    ]);
  }
  navigate(path`/topics/${done.name}`, { replace: true });
}

function describeRename(name) {
  return [
    h("p", {}, "It stays the same topic: same records, offsets, configs and id. Positions of groups come along."),
    notice("warn", `Whoever uses ${name} gets UNKNOWN_TOPIC_OR_PARTITION from then on: producers and consumers have to be told the new name.`),
  ];
}

/** The copy is a job on Spark: the plan and the command are shown, and nothing is begun here. */
export function resize(name, signal) {
  return modal(`Another number of partitions for ${name}`, (close) => {
    const total = field({ name: "partitions", label: "Partitions", type: "number", attributes: { min: 1, step: 1, required: true }, help: "Fewer or more than now." });
    const how = field({ name: "partitioner", label: "Keys are placed by", type: "select", options: ["murmur2"], value: "murmur2", help: "As the topic's producers hash: murmur2 is Java's, consistent_random librdkafka's." });
    const problem = problemPlace();
    const place = h("div", {});
    const go = h("button", { class: "button primary", type: "submit" }, "Show the plan");
    const form = h("form", { novalidate: true }, total.node, how.node, problem.node, place, h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Close"), go));
    get("/partitioners", {}, { signal }).then(
      ({ names }) => fill(how.input, ...names.map((value) => h("option", { value }, value))),
      () => {},
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.say(null);
      fill(place);
      total.setError(null);
      if (total.value() === null || !Number.isInteger(total.value())) return total.setError("A whole number.");
      go.disabled = true;
      try {
        const plan = await get(path`/topics/${name}/resize`, { partitions: total.value(), partitioner: how.value() }, { signal });
        fill(place, describeResize(name, plan));
      } catch (error) {
        if (error.name !== "AbortError" && !showAtField([total, how], error)) problem.say(error);
      } finally {
        go.disabled = false;
      }
    });
    setTimeout(() => total.input.focus());
    return form;
  });
}

function describeResize(name, plan) {
  return [
    h("p", { class: "spaced" }, `From ${plural(plan.present, "partition")} to ${count(plan.partitions)}, ${plural(plan.replication_factor, "replica")} each, while producers and groups run. ${plan.resumes ? "One is under way: the command goes on with it." : "The controller has nothing against it."}`),
    h(
      "ol",
      { class: "steps small" },
      h("li", {}, `Records are copied into a new topic, each key in its order, by ${plan.partitioner}.`),
      h("li", {}, `${name} is fenced for a moment: producers wait and try again.`),
      h("li", {}, "Groups get positions in the new topic. Nothing is skipped; some records may be read again."),
      h("li", {}, `The name changes hands, and the old topic ${plan.old_is_kept ? "goes to the trash" : "is deleted"}.`),
    ),
    h("h3", { class: "small-heading" }, "Begin it by command"),
    commandLine(plan.command),
    h("p", { class: "muted small" }, "The copy is a job on Spark, which the console does not start: run the command where ottla[spark] is installed. This page shows how far it is."),
  ];
}

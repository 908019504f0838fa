// The configs of a topic: documentation, value, default, and where the value comes from.

import { get } from "../lib/api.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { debounced, fill, h, path } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { empty, notice, problemPlace } from "../lib/notices.js";
import { keepInAddress } from "../lib/router.js";

const SHOW = [
  { value: "", label: "All" },
  { value: "own", label: "Set on this topic" },
];

export async function showConfigs(root, name, signal) {
  const problem = problemPlace();
  const where = path`/topics/${name}/configs`;
  const given = new URLSearchParams(location.search);
  const search = field({ name: "config", label: "Search", type: "search", value: given.get("config") ?? "" });
  const show = field({ name: "set", label: "Show", type: "select", options: SHOW, value: given.get("set") ?? "" });
  const place = h("div", {}, h("p", { class: "muted" }, "Asking the cluster…"));
  fill(root, problem.node, h("div", { class: "filters" }, search.node, show.node), place);
  let configs = [];
  const draw = () => {
    const text = search.value().trim().toLowerCase();
    const some = configs.filter((one) => (!text || one.name.toLowerCase().includes(text) || one.documentation.toLowerCase().includes(text)) && (show.value() !== "own" || one.is_own));
    if (!some.length) {
      fill(place, empty(show.value() === "own" && !text ? "Nothing is set on this topic: all values come from the cluster." : "No config is like that."));
      return;
    }
    fill(
      place,
      h(
        "div",
        { class: "table-wrap" },
        h("table", { class: "topic-table configs", "aria-label": "Configs" }, h("thead", {}, h("tr", {}, ...["Config", "Value", "Where it comes from", ""].map((text_) => h("th", { scope: "col" }, text_ || h("span", { class: "visually-hidden" }, "Change"))))), h("tbody", {}, ...some.map((one) => configRow(one, change)))),
      ),
    );
  };
  const load = async () => {
    try {
      configs = await get(where, {}, { signal });
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      problem.say(error);
      fill(place);
    }
  };
  const changed = () => {
    keepInAddress({ config: search.value(), set: show.value() });
    draw();
  };
  search.input.addEventListener("input", debounced(120, () => signal.aborted || changed()));
  show.input.addEventListener("change", changed);
  async function change(one, isReset) {
    const answer = isReset ? await reset(where, one) : await edit(where, one);
    if (answer && !signal.aborted) {
      configs = answer;
      draw();
    }
  }
  await load();
}

function shown(value, isSensitive = false) {
  if (isSensitive) return h("span", { class: "muted" }, "hidden");
  if (value === null || value === undefined) return h("span", { class: "muted" }, "none");
  return value === "" ? h("span", { class: "muted" }, "empty") : h("code", { dir: "auto", class: "config-value" }, value);
}

function configRow(one, change) {
  const chain = one.synonyms.length > 1
    ? h("details", {}, h("summary", {}, one.words), h("ol", { class: "config-chain" }, ...one.synonyms.map((s) => h("li", {}, h("code", {}, s.name), " = ", shown(s.value, one.sensitive), h("span", { class: "muted" }, ` ${s.words}`)))))
    : one.words;
  const limits = [one.bounds ? `Valid: ${one.bounds}.` : null].filter(Boolean).join(" ");
  return h(
    "tr",
    { class: one.is_own ? "own" : "" },
    h("td", { class: "about" }, h("div", { class: "config-name mono" }, one.name), h("div", { class: "muted small" }, one.documentation, " ", limits)),
    h("td", {}, h("div", {}, shown(one.value, one.sensitive)), one.value === one.default ? null : h("div", { class: "muted small" }, "Default: ", shown(one.default, one.sensitive))),
    h("td", {}, one.is_own ? h("span", { class: "badge accent" }, "set here") : null, " ", chain),
    h(
      "td",
      { class: "config-actions" },
      one.read_only ? null : h("button", { class: "button small", type: "button", "aria-label": `Edit ${one.name}`, onclick: () => change(one, false) }, "Edit"),
      one.is_own ? h("button", { class: "button small", type: "button", "aria-label": `Reset ${one.name}`, onclick: () => change(one, true) }, "Reset") : null,
    ),
  );
}

function describeChange(done) {
  return done.changes.map((one) => h("dl", { class: "facts" }, h("dt", {}, "Now"), h("dd", {}, shown(one.before)), h("dt", {}, "Then"), h("dd", {}, shown(one.after), h("span", { class: "muted" }, ` ${one.after_words}`))));
}

function edit(where, one) {
  return modal(one.name, (close) => {
    const value = field({ name: `configs.${one.name}`, label: "Value", type: one.choices ? "select" : "text", options: one.choices ?? [], value: one.value ?? "" });
    const problem = problemPlace();
    const go = h("button", { class: "button primary", type: "submit" }, "Set…");
    const form = h(
      "form",
      { novalidate: true },
      h("p", { class: "muted" }, one.documentation),
      h("dl", { class: "facts" }, h("dt", {}, "Default"), h("dd", {}, shown(one.default)), one.bounds ? [h("dt", {}, "Valid"), h("dd", {}, one.bounds)] : null),
      h("div", { class: "spaced" }, value.node),
      problem.node,
      h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Cancel"), go),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.say(null);
      go.disabled = true;
      try {
        const answer = await confirmWrite({ title: `Set ${one.name}`, method: "PUT", path: where, body: { set: { [one.name]: value.value() } }, verb: "Set", describe: describeChange });
        if (answer) close(answer);
      } catch (error) {
        if (!showAtField([value], error)) problem.say(error);
      } finally {
        go.disabled = false;
      }
    });
    setTimeout(() => value.input.focus());
    return form;
  });
}

async function reset(where, one) {
  try {
    return await confirmWrite({ title: `Reset ${one.name}`, method: "PUT", path: where, body: { reset: [one.name] }, verb: "Reset", describe: describeChange });
  } catch (error) {
    return modal("It cannot be reset", (close) => [notice("bad", error.message), h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Close"))]);
  }
}

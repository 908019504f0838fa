// ACLs, quotas and users with a password: three lists, each with its form.

import { get } from "../lib/api.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { fill, h } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { bytes, count } from "../lib/format.js";
import { empty, failure, notice } from "../lib/notices.js";
import { keepInAddress } from "../lib/router.js";
import { dataTable } from "../lib/table.js";

export const title = "Rights";
export const question = "Who may do what, and how much?";

const SECTIONS = [
  { id: "acls", href: "/rights", name: "ACLs", open: openAcls },
  { id: "quotas", href: "/rights/quotas", name: "Quotas", open: openQuotas },
  { id: "users", href: "/rights/users", name: "Users", open: openUsers },
];

export async function mount(root, { params, query, signal, side, session }) {
  const section = SECTIONS.find((one) => one.id === (params.section ?? "acls"));
  if (!section) {
    fill(root, empty("There is no such page."));
    return;
  }
  const tabs = h("nav", { class: "tabs", "aria-label": "Rights" }, ...SECTIONS.map((one) => h("a", { href: one.href, "aria-current": one === section ? "page" : null }, one.name)));
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Asking the cluster…"));
  fill(root, tabs, place);
  await section.open({ place, query, signal, side, session });
}

// What the three have in common: a list with a search, a button that opens a form, and words for
// whoever may not look.

function list({ place, query, signal, side, path, words, columns, key, matches, none, button, onLoad }) {
  const search = h("input", { type: "search", placeholder: words.search, "aria-label": words.search, value: query.get("q") ?? "" });
  const told = h("span", { class: "muted small", role: "status" });
  const table = dataTable({ label: words.label, columns, key, empty: none });
  const add = h("button", { class: "button primary", type: "button", onclick: () => button.open(load) }, button.name);
  let rows = [];
  const show = () => {
    const wanted = search.value.trim().toLowerCase();
    const shown = wanted ? rows.filter((row) => matches(row).toLowerCase().includes(wanted)) : rows;
    table.setRows(shown);
    keepInAddress({ q: search.value.trim() });
    told.textContent = wanted ? `${count(shown.length)} of ${count(rows.length)}` : count(rows.length);
  };
  search.addEventListener("input", show);
  async function load() {
    try {
      const answer = await get(path, {}, { signal });
      rows = onLoad(answer);
      if (!table.node.isConnected) {
        fill(side, add);
        fill(place, h("div", { class: "toolbar" }, search, told), words.hint ? h("p", { class: "muted small" }, words.hint) : null, table.node);
      }
      show();
      if (answer.total > rows.length && rows.length) told.textContent = `the first ${count(rows.length)} of ${count(answer.total)}`;
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(side);
      fill(place, error.code === "SECURITY_DISABLED" ? notice("info", error.message) : failure(error));
    }
  }
  return { load };
}

/** A dialog with a form; `body()` gives what is written, once the preview has found nothing wrong. */
function formDialog({ heading, intro, fields, extra, body, path, confirmTitle, verb, done }) {
  return modal(heading, (close) => {
    const problem = h("div", {});
    const form = h("form", {}, intro ? h("p", { class: "muted" }, intro) : null, ...fields.map((one) => one.node), extra ?? null, problem, h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Cancel"), h("button", { class: "button primary", type: "submit" }, "Continue")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      fill(problem);
      try {
        const answer = await confirmWrite({ title: confirmTitle(), method: "POST", path, body: body(), verb });
        if (answer === null) return;
        close();
        await done();
      } catch (error) {
        if (!showAtField(fields, error)) fill(problem, failure(error));
      }
    });
    return form;
  });
}

async function removeOne({ place, heading, path, body, verb = "Remove", done }) {
  try {
    if ((await confirmWrite({ title: heading, method: "POST", path, body, verb, danger: true })) !== null) await done();
  } catch (error) {
    const told = failure(error);
    place.prepend(told);
    setTimeout(() => told.remove(), 8000);
  }
}

function removeButton(label, session, action) {
  return h("button", { class: "button quiet small", type: "button", "aria-label": label, onclick: action }, session.read_only ? "Command" : "Remove");
}

/** DESCRIBE_CONFIGS -> DescribeConfigs, as `ottla acls` says it. */
function word(name) {
  return name.split("_").map((part) => part[0] + part.slice(1).toLowerCase()).join("");
}

// ACLs

function openAcls({ place, query, signal, side, session }) {
  let operations = {};
  const nameOf = (acl) => (acl.resource_type === "CLUSTER" ? "" : acl.pattern_type === "PREFIXED" ? `${acl.resource_name}…` : acl.resource_name);
  const inWords = (acl) => `${acl.principal} ${word(acl.permission)} ${word(acl.operation)} ${word(acl.resource_type)} ${nameOf(acl)} ${acl.host}`;
  const isKnown = (acl) => ![acl.resource_type, acl.operation, acl.permission, acl.pattern_type].includes("UNKNOWN");
  const view = list({
    place,
    query,
    signal,
    side,
    path: "/acls",
    words: { label: "ACLs", search: "Search entries", hint: "A denial wins over every allowance. Where nothing matches, nobody may but super users." },
    none: "No entry. What that means is the brokers' allow.everyone.if.no.acl.found to say: usually nobody may do anything.",
    key: (acl) => JSON.stringify(acl),
    matches: inWords,
    button: { name: "Add ACLs", open: (load) => addAcls(operations, load) },
    onLoad: (answer) => {
      operations = answer.operations;
      return answer.acls;
    },
    columns: [
      { name: "principal", title: "Who", by: (acl) => acl.principal, cell: (acl) => h("span", { class: "mono" }, acl.principal) },
      { name: "permission", title: "May", by: (acl) => acl.permission, cell: (acl) => h("span", { class: `badge ${acl.permission === "DENY" ? "bad" : "good"}` }, acl.permission === "DENY" ? "may not" : "may") },
      { name: "operation", title: "Operation", by: (acl) => acl.operation, cell: (acl) => word(acl.operation) },
      { name: "type", title: "On", by: (acl) => acl.resource_type, cell: (acl) => word(acl.resource_type) },
      { name: "name", title: "Name", by: (acl) => acl.resource_name, cell: (acl) => [h("span", { class: "mono" }, nameOf(acl)), acl.pattern_type === "PREFIXED" ? h("span", { class: "badge badge-after" }, "prefix") : null] },
      { name: "host", title: "From", by: (acl) => acl.host, cell: (acl) => (acl.host === "*" ? h("span", { class: "muted" }, "anywhere") : h("span", { class: "mono" }, acl.host)) },
      { name: "remove", title: h("span", { class: "visually-hidden" }, "Remove"), cell: (acl) => (isKnown(acl) ? removeButton(`Remove: ${inWords(acl)}`, session, () => removeOne({ place, heading: "Remove this entry?", path: "/acls/remove", body: acl, done: view.load })) : h("span", { class: "muted small" }, "newer than this console")) },
    ],
  });
  return view.load();
}

function addAcls(operations, done) {
  const types = Object.keys(operations).map((type) => ({ value: type, label: word(type) }));
  const principal = field({ name: "principal", label: "Who", value: "User:", help: "User:name, or User:* for everybody." });
  const permission = field({ name: "permission", label: "May or may not", type: "select", value: "ALLOW", options: [{ value: "ALLOW", label: "may" }, { value: "DENY", label: "may not" }] });
  const type = field({ name: "resource_type", label: "On", type: "select", value: "TOPIC", options: types });
  const name = field({ name: "resource_name", label: "Name", help: "* for all." });
  const pattern = field({ name: "pattern_type", label: "The name is", type: "select", value: "LITERAL", options: [{ value: "LITERAL", label: "exactly this" }, { value: "PREFIXED", label: "the beginning of names" }] });
  const host = field({ name: "host", label: "From", value: "*", help: "An address; * for anywhere." });
  const error = h("div", { class: "field-error", role: "alert" });
  const boxes = h("div", { class: "choices" });
  const chosen = h("fieldset", { class: "field" }, h("legend", {}, "Operations"), boxes, error);
  const drawBoxes = () => {
    fill(boxes, ...operations[type.value()].map((one) => h("label", {}, h("input", { type: "checkbox", name: "operation", value: one }), word(one))));
    const isCluster = type.value() === "CLUSTER";
    name.node.hidden = isCluster;
    pattern.node.hidden = isCluster;
  };
  type.input.addEventListener("change", drawBoxes);
  drawBoxes();
  const operationsField = { name: "operations", node: chosen, input: { focus: () => boxes.querySelector("input")?.focus() }, setError: (text) => (error.textContent = text ?? "") };
  const checked = () => [...boxes.querySelectorAll("input:checked")].map((box) => box.value);
  return formDialog({
    heading: "Add ACLs",
    fields: [principal, permission, operationsField, type, name, pattern, host],
    path: "/acls",
    body: () => ({ principal: principal.value(), permission: permission.value(), operations: checked(), resource_type: type.value(), resource_name: name.value(), pattern_type: type.value() === "CLUSTER" ? "LITERAL" : pattern.value(), host: host.value() }),
    confirmTitle: () => (checked().length > 1 ? `Add ${checked().length} entries` : "Add an entry"),
    verb: "Add",
    done,
  });
}

// Quotas

const KINDS = { user: "User", "client-id": "Client", ip: "Address" };

function openQuotas({ place, query, signal, side, session }) {
  let words = {};
  const partText = (part) => `${KINDS[part.type] ?? part.type} ${part.name === null ? "(default)" : part.name}`;
  const inWords = (row) => row.entity.map(partText).join(", ");
  const view = list({
    place,
    query,
    signal,
    side,
    path: "/quotas",
    words: { label: "Quotas", search: "Search users, clients, addresses", hint: "Per broker. The most exact one counts: user and client together, then the user, then the client, then the defaults." },
    none: "No quota: nobody is slowed down.",
    key: (row) => `${inWords(row)} ${row.name}`,
    matches: (row) => `${inWords(row)} ${row.name}`,
    button: { name: "Set a quota", open: (load) => setQuota(words, load) },
    onLoad: (answer) => {
      words = { ofClients: answer.of_clients, ofAddresses: answer.of_addresses, all: { ...answer.of_clients, ...answer.of_addresses } };
      return answer.quotas.flatMap((row) => Object.entries(row.quotas).map(([name, value]) => ({ entity: row.entity, name, value })));
    },
    columns: [
      { name: "entity", title: "Whose", by: inWords, cell: (row) => row.entity.map((part) => h("span", { class: "entity" }, h("span", { class: "muted" }, `${KINDS[part.type] ?? part.type} `), part.name === null ? h("em", {}, "default") : h("span", { class: "mono" }, part.name))) },
      { name: "name", title: "What", by: (row) => row.name, cell: (row) => h("span", { title: row.name }, words.all[row.name] ?? row.name) },
      { name: "value", title: "Limit", numeric: true, by: (row) => row.value, cell: (row) => limitText(row) },
      { name: "remove", title: h("span", { class: "visually-hidden" }, "Remove"), cell: (row) => removeButton(`Remove: ${inWords(row)} ${row.name}`, session, () => removeOne({ place, heading: `Remove the limit of ${inWords(row)}?`, path: "/quotas", body: { entity: row.entity, remove: [row.name] }, done: view.load })) },
    ],
  });
  return view.load();
}

function limitText({ name, value }) {
  if (name.endsWith("byte_rate")) return h("span", { title: `${count(value)} bytes per second` }, `${bytes(value)}/s`);
  return name === "request_percentage" ? `${count(value)} %` : `${count(value)}/s`;
}

function setQuota(words, done) {
  const kind = field({ name: "entity", label: "Whose", type: "select", value: "user", options: [{ value: "user", label: "A user" }, { value: "client-id", label: "A client" }, { value: "user client-id", label: "A client of a user" }, { value: "ip", label: "An address" }] });
  const names = Object.entries(KINDS).map(([type, label]) => field({ name: type, label, help: "Leave it empty for the default: whoever has no quota of their own." }));
  const limits = Object.entries(words.all).map(([name, label]) => field({ name, label, type: "number", attributes: { min: "0", step: "any" } }));
  const isOfAddresses = (name) => name in words.ofAddresses;
  const shown = (one) => !one.node.hidden;
  const draw = () => {
    const kinds = kind.value().split(" ");
    for (const one of names) one.node.hidden = !kinds.includes(one.name);
    for (const one of limits) one.node.hidden = isOfAddresses(one.name) !== kinds.includes("ip");
  };
  kind.input.addEventListener("change", draw);
  draw();
  return formDialog({
    heading: "Set a quota",
    intro: "Limits that are left empty stay as they are.",
    fields: [kind, ...names, ...limits],
    path: "/quotas",
    body: () => ({
      entity: names.filter(shown).map((one) => ({ type: one.name, name: one.value() === "" ? null : one.value() })),
      set: Object.fromEntries(limits.filter((one) => shown(one) && one.value() !== null).map((one) => [one.name, one.value()])),
    }),
    confirmTitle: () => "Set these limits",
    verb: "Set",
    done,
  });
}

// Users

function openUsers({ place, query, signal, side, session }) {
  let facts = null;
  const view = list({
    place,
    query,
    signal,
    side,
    path: "/users",
    words: { label: "Users", search: "Search users", hint: "Users with a SCRAM password. Those of PLAIN are in the brokers' properties, those of OAUTHBEARER with whoever issues tokens." },
    none: "No user has a SCRAM password.",
    key: (row) => `${row.name} ${row.mechanism}`,
    matches: (row) => `${row.name} ${row.mechanism}`,
    button: { name: "Set a password", open: (load) => setPassword(facts, load) },
    onLoad: (answer) => {
      facts = answer;
      return answer.users.flatMap((user) => Object.entries(user.mechanisms).map(([mechanism, iterations]) => ({ name: user.name, mechanism, iterations })));
    },
    columns: [
      { name: "name", title: "User", by: (row) => row.name, cell: (row) => h("span", { class: "mono" }, row.name) },
      { name: "mechanism", title: "Mechanism", by: (row) => row.mechanism, cell: (row) => row.mechanism },
      { name: "iterations", title: "Rounds", numeric: true, by: (row) => row.iterations, cell: (row) => count(row.iterations) },
      { name: "remove", title: h("span", { class: "visually-hidden" }, "Remove"), cell: (row) => removeButton(`Remove the password of ${row.name} for ${row.mechanism}`, session, () => removeOne({ place, heading: `Remove the password of ${row.name}?`, path: "/users/remove", body: { user: row.name, mechanism: row.mechanism }, done: view.load })) },
    ],
  });
  return view.load();
}

function setPassword(facts, done) {
  const user = field({ name: "user", label: "User" });
  const mechanism = field({ name: "mechanism", label: "Mechanism", type: "select", options: facts.mechanisms, value: facts.mechanisms.at(-1) });
  const password = field({ name: "password", label: "Password", type: "password", attributes: { autocomplete: "new-password" }, help: "It is salted and hashed before it leaves the console." });
  const iterations = field({ name: "iterations", label: "Rounds of hashing", type: "number", value: Math.min(8192, facts.most_iterations), help: `${count(facts.least_iterations)} to ${count(facts.most_iterations)}.` });
  return formDialog({
    heading: "Set a password",
    intro: "Of a new user, or in place of the one they have.",
    fields: [user, mechanism, password, iterations],
    path: "/users",
    body: () => ({ user: user.value(), mechanism: mechanism.value(), password: password.value(), iterations: iterations.value() ?? 0 }),
    confirmTitle: () => `Set the password of ${user.value()}`,
    verb: "Set",
    done,
  });
}

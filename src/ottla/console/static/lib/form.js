// Fields with their label, their help, and their error beside them.

import { h } from "./dom.js";

let made = 0;

/**
 * field({name, label, type: "text"|"number"|"textarea"|"select"|"checkbox"|"password"|"search",
 *        value, options: [{value, label}] | [string], help, attributes})
 * -> {name, node, input, value(), setError(text | null)}
 */
export function field({ name, label, type = "text", value = "", options = [], help = null, attributes = {} }) {
  const id = `field-${(made += 1)}-${name}`;
  const helpId = `${id}-help`;
  const errorId = `${id}-error`;
  const shared = { id, name, "aria-describedby": help ? `${helpId} ${errorId}` : errorId, ...attributes };
  let input;
  if (type === "select") {
    const items = options.map((option) => (typeof option === "object" ? option : { value: option, label: option }));
    input = h("select", { ...shared, value }, ...items.map((o) => h("option", { value: o.value }, o.label)));
    input.value = value;
  } else if (type === "textarea") input = h("textarea", { ...shared, rows: 4, value });
  else if (type === "checkbox") input = h("input", { ...shared, type, checked: Boolean(value) });
  else input = h("input", { ...shared, type, value, autocomplete: "off", spellcheck: "false" });
  const error = h("div", { id: errorId, class: "field-error", role: "alert" });
  const node = h(
    "div",
    { class: `field ${type === "checkbox" ? "check" : ""}` },
    h("label", { for: id }, label),
    input,
    help ? h("div", { id: helpId, class: "field-help" }, help) : null,
    error,
  );
  return {
    name,
    node,
    input,
    value: () => {
      if (type === "checkbox") return input.checked;
      if (type === "number") return input.value === "" ? null : Number(input.value);
      return input.value;
    },
    setError: (text) => {
      error.textContent = text ?? "";
      input.toggleAttribute("aria-invalid", Boolean(text));
      node.classList.toggle("bad", Boolean(text));
    },
  };
}

/** Shows a failure at the field it names; false where no field has that name. */
export function showAtField(fields, error) {
  for (const one of fields) one.setError(null);
  const found = fields.find((one) => one.name === error.field);
  found?.setError(error.message);
  found?.input.focus();
  return Boolean(found);
}

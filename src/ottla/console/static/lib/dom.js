// Elements from code. Text only ever becomes text nodes: nothing that comes from the cluster can
// become markup.

const SVG = "http://www.w3.org/2000/svg";

function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** h("button", {class: "button", onclick: f}, "Text", node, [more]) */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  append(element, children);
  apply(element, attributes); // after its options exist, a select can have a value
  return element;
}

/** The same for SVG. */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  apply(element, attributes);
  return append(element, children);
}

/** Puts `children` in place of whatever `element` has. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** Sets text only where it differs: what a reader has selected stays selected. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** A link to a page of the console; parts are put together with `path`. */
export function link(href, ...children) {
  return h("a", { href }, ...children);
}

/** path`/topics/${name}`: names in paths may hold anything. */
export function path(strings, ...values) {
  return strings.reduce((all, part, i) => all + part + (i < values.length ? encodeURIComponent(values[i]) : ""), "");
}

export function debounced(wait, action) {
  let timer = null;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), wait);
  };
}

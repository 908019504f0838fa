// Bytes of records for readers: text, JSON, hex. Whatever they hold, it becomes text nodes.

import { h } from "./dom.js";

const MAX_HEX = 64 * 1024;
const MAX_NODES = 5000;
// Control characters, and what turns the direction of text or hides in it: shown by their numbers.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** {text} or {base64} to bytes */
export function bytesOf(data) {
  if (data.text !== undefined && data.text !== null) return new TextEncoder().encode(data.text);
  return Uint8Array.from(atob(data.base64), (c) => c.charCodeAt(0));
}

export function isText(data) {
  return data.text !== undefined && data.text !== null;
}

/** Text in which nothing is invisible: ␀ and the like in place of control characters. */
export function visible(text) {
  return text.replace(UNSEEN, (c) => {
    const code = c.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** One line for a list: the first characters, or hex digits of what is no text. */
export function oneLine(data, most = 200) {
  if (data === null) return null;
  if (isText(data)) return visible(data.text.slice(0, most)).replace(/\s+/g, " ");
  return `0x${hexDigits(bytesOf(data).slice(0, 32))}${data.size > 32 ? "…" : ""}`;
}

function hexDigits(bytes) {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** Rows of sixteen: offset, digits, characters. */
export function hexDump(data) {
  const bytes = bytesOf(data).slice(0, MAX_HEX);
  const rows = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = bytes.slice(at, at + 16);
    const digits = Array.from(row, (b) => b.toString(16).padStart(2, "0"));
    const left = digits.slice(0, 8).join(" ").padEnd(23);
    const right = digits.slice(8).join(" ").padEnd(23);
    const characters = Array.from(row, (b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${left}  ${right}  ${characters}`);
  }
  return rows.join("\n");
}

/** The JSON in it, or undefined. */
export function jsonOf(data) {
  if (!isText(data) || data.is_cut) return undefined;
  const text = data.text.trim();
  if (!/^[[{"\-\dtfn]/.test(text)) return undefined;
  try {
    return { value: JSON.parse(text, exact) };
  } catch {
    return undefined;
  }
}

/** A number that JavaScript would round, such as a long id, as it was written. */
class Exact {
  constructor(source) {
    this.source = source;
  }
}

function exact(_key, value, context) {
  if (typeof value !== "number" || !context?.source) return value;
  return String(value) === context.source ? value : new Exact(context.source);
}

/** A tree that folds; everything beyond a few levels or items begins folded. */
export function jsonTree(value) {
  const room = { left: MAX_NODES };
  return h("div", { class: "bytes json", tabindex: "0", role: "region", "aria-label": "JSON" }, node(null, value, 0, room));
}

function node(name, value, depth, room) {
  room.left -= 1;
  const label = name === null ? null : [h("span", { class: "name" }, visible(String(name))), ": "];
  if (value === null || typeof value !== "object" || value instanceof Exact) return h("span", { class: "leaf" }, label, leaf(value));
  const entries = Object.entries(value);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return h("span", { class: "leaf" }, label, open + close);
  const count = `${entries.length} ${Array.isArray(value) ? (entries.length === 1 ? "item" : "items") : entries.length === 1 ? "field" : "fields"}`;
  const details = h("details", { open: depth < 3 && entries.length <= 100 }, h("summary", {}, label, open, " ", h("span", { class: "muted" }, count), " ", close));
  let isMade = false;
  const make = () => {
    if (isMade || !details.open) return;
    isMade = true;
    for (const [key, item] of entries) {
      if (room.left <= 0) {
        details.append(h("span", { class: "leaf muted" }, "… there is more: look at it as text"));
        break;
      }
      details.append(node(key, item, depth + 1, room));
    }
  };
  details.addEventListener("toggle", () => {
    room.left = Math.max(room.left, 1000);
    make();
  });
  make();
  return details;
}

function leaf(value) {
  if (typeof value === "string") return h("span", { class: "string" }, `"${visible(value)}"`);
  if (value instanceof Exact) return h("span", { class: "number" }, value.source);
  if (typeof value === "number") return h("span", { class: "number" }, String(value));
  return h("span", { class: "word" }, String(value));
}

/** A link that saves `text` as a file. */
export function fileLink(name, text) {
  const anchor = h("a", { download: name, href: "#" }, `save ${name}`);
  anchor.href = URL.createObjectURL(new Blob([text.endsWith("\n") ? text : `${text}\n`], { type: "text/plain" }));
  return anchor;
}

// What a page says when something is wrong, empty, or under way.

import { h } from "./dom.js";

/** kind: bad, warn, good or info. `command` is shown as it would be typed, with a button to copy it. */
export function notice(kind, words, { command = null, more = null } = {}) {
  return h(
    "div",
    { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" },
    h("div", { class: "notice-words" }, words),
    more,
    command === null ? null : commandLine(command),
  );
}

export function commandLine(text) {
  const button = h("button", { class: "button quiet small", type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return h("div", { class: "command" }, h("code", { tabindex: "0" }, text), button);
}

export function empty(words, ...more) {
  return h("div", { class: "empty" }, h("p", {}, words), ...more);
}

export function failure(error) {
  return notice("bad", error.message, { more: error.code ? h("span", { class: "muted mono small" }, error.code) : null });
}

/** A place for the one problem a page may have; say(null) takes it away. */
export function problemPlace() {
  const place = h("div", { class: "problem-place" });
  return { node: place, say: (error) => place.replaceChildren(...(error === null ? [] : [failure(error)])) };
}

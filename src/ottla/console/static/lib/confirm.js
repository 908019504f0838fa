// Every write is shown first: the ottla commands that do the same, and what would happen.

import { preview, send, currentSession } from "./api.js";
import { h, fill } from "./dom.js";
import { commandLine, failure, notice } from "./notices.js";

/**
 * confirmWrite({title, method, path, body, verb, danger, describe(preview) -> nodes, typed})
 * -> the answer of the write, or null if the reader thought better of it. Failures of the preview
 * are thrown (a form shows them at its fields); those of the write stay in the dialog.
 * `typed` is a word that has to be typed first, for what cannot be taken back.
 */
export async function confirmWrite({ title, method, path, body, verb, danger = false, describe = () => null, typed = null }) {
  const shown = await preview(method, path, body);
  return new Promise((resolve) => {
    const problem = h("div", {});
    const go = h("button", { class: `button ${danger ? "danger" : "primary"}`, type: "submit" }, verb);
    const cancel = h("button", { class: "button", type: "button" }, "Cancel");
    const guard = typed === null ? null : h("input", { id: "typed-guard", autocomplete: "off", spellcheck: "false" });
    const isReadOnly = Boolean(currentSession()?.read_only);
    const check = () => (go.disabled = isReadOnly || (guard !== null && guard.value !== typed));
    guard?.addEventListener("input", check);
    const heading = h("h2", { id: "confirm-title" }, title);
    const form = h(
      "form",
      { method: "dialog" },
      heading,
      describe(shown.preview),
      h("h3", { class: "small-heading" }, shown.commands.length === 1 ? "The same by command" : "The same by commands"),
      ...shown.commands.map(commandLine),
      guard === null ? null : h("div", { class: "field" }, h("label", { for: "typed-guard" }, `Type ${typed} to go on`), guard),
      isReadOnly ? notice("info", "This console is read-only: use the command.") : null,
      problem,
      h("div", { class: "actions" }, cancel, go),
    );
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "confirm-title" }, form);
    const close = (value) => {
      dialog.close();
      dialog.remove();
      resolve(value);
    };
    cancel.addEventListener("click", () => close(null));
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      fill(problem);
      try {
        close(await send(method, path, body));
      } catch (error) {
        fill(problem, failure(error));
        check();
      }
    });
    document.body.append(dialog);
    check();
    dialog.showModal();
  });
}

/** A dialog for anything else: modal(title, (close) => nodes) -> what close(value) was given. */
export function modal(title, content) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: "dialog", "aria-label": title });
    const close = (value = null) => {
      dialog.close();
      dialog.remove();
      resolve(value);
    };
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close();
    });
    dialog.append(h("h2", {}, title), ...[content(close)].flat());
    document.body.append(dialog);
    dialog.showModal();
  });
}

// The frame: menu, theme, login, and the page that the address names.

import { currentSession, loadSession, logIn, logOut } from "./lib/api.js";
import { fill, h } from "./lib/dom.js";
import { field, showAtField } from "./lib/form.js";
import { empty, failure } from "./lib/notices.js";
import { match, navigate } from "./lib/router.js";
import { PAGES } from "./pages/index.js";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const menu = document.getElementById("menu");
let mounted = null;

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = localStorage.getItem("ottla.theme");
  setTheme(chosen ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => localStorage.getItem("ottla.theme") ?? setTheme(system.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("ottla.theme", other);
    setTheme(other);
  });
}

function drawNav(current) {
  fill(nav, ...PAGES.map((page) => h("a", { href: page.href, "aria-current": page === current ? "page" : null }, page.name)));
  nav.classList.remove("is-open");
  menu.setAttribute("aria-expanded", "false");
}

async function show() {
  mounted?.abort();
  mounted = new AbortController();
  const { signal } = mounted;
  const session = currentSession();
  drawWho(session);
  if (!session.is_in) {
    showLogin(session);
    return;
  }
  const found = match(PAGES, location.pathname);
  drawNav(found?.page);
  if (!found) {
    document.title = "Not found · Ottla";
    fill(main, empty("There is no such page."));
    return;
  }
  try {
    const module = await found.page.load(found.params);
    if (signal.aborted) return;
    const name = found.params.name ?? found.params.id;
    document.title = `${name ? `${name} · ` : ""}${module.title} · Ottla`;
    const root = h("div", {});
    const side = h("div", { class: "row" });
    fill(main, h("div", { class: "page-head" }, h("div", { class: "grow" }, h("h1", {}, module.heading?.(found.params) ?? module.title), h("p", { class: "page-question" }, module.question)), side), root);
    await module.mount(root, { params: found.params, query: new URLSearchParams(location.search), signal, side, session });
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    fill(main, failure(error));
  }
}

function drawWho(session) {
  document.getElementById("where").textContent = session.bootstrap;
  const who = document.getElementById("who");
  fill(
    who,
    session.read_only ? h("span", { class: "badge warn" }, "read-only") : null,
    session.user ? h("span", { class: "muted" }, session.user) : null,
    session.user
      ? h("button", { class: "button quiet small", type: "button", onclick: () => logOut().then(begin) }, "Log out")
      : null,
  );
}

function showLogin(session) {
  fill(nav);
  document.title = "Log in · Ottla";
  const fields = [
    field({ name: "username", label: "User", attributes: { autocomplete: "username", required: true } }),
    field({ name: "password", label: "Password", type: "password", attributes: { autocomplete: "current-password", required: true } }),
    field({ name: "mechanism", label: "Mechanism", type: "select", options: session.mechanisms, value: session.mechanism }),
  ];
  const problem = h("div", {});
  const button = h("button", { class: "button primary", type: "submit" }, "Log in");
  const form = h("form", { class: "card login" }, h("h1", {}, "Log in"), h("p", { class: "muted" }, "As a user of the cluster, with that user's rights."), ...fields.map((one) => one.node), problem, h("div", { class: "actions" }, button));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    const [username, password, mechanism] = fields.map((one) => one.value());
    try {
      await logIn(mechanism, username, password);
      await show();
    } catch (error) {
      if (!showAtField(fields, error)) fill(problem, failure(error));
      button.disabled = false;
    }
  });
  fill(main, form);
  fields[0].input.focus();
}

async function begin() {
  try {
    await loadSession();
  } catch (error) {
    fill(main, failure(error));
    return;
  }
  await show();
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  if (anchor.target || anchor.origin !== location.origin || anchor.hash || anchor.hasAttribute("download") || anchor.pathname.startsWith("/api/")) return;
  event.preventDefault();
  if (anchor.href !== location.href) navigate(anchor.href);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(nav.classList.toggle("is-open"))));
window.addEventListener("popstate", show);
window.addEventListener("ottla:moved", show);
window.addEventListener("ottla:login", () => begin());
startTheme();
begin();

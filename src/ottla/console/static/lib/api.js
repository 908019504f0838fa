// The HTTP API. Every failure is an ApiFailure with words for the reader.

export class ApiFailure extends Error {
  constructor(status, { code, message, field }) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field ?? null;
  }
}

let session = null;

/** Who looks, and the token that writes carry. */
export async function loadSession() {
  session = await ask("GET", "/session");
  return session;
}

export function currentSession() {
  return session;
}

export async function logIn(mechanism, username, password) {
  session = await ask("POST", "/session", { mechanism, username, password });
  return session;
}

export async function logOut() {
  await ask("DELETE", "/session");
  session = null;
}

export function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export function get(path, query, { signal } = {}) {
  return ask("GET", withQuery(path, query), undefined, signal);
}

/** What a write would do: {commands, preview}. */
export function preview(method, path, body) {
  return ask(method, withQuery(path, { preview: "true" }), body ?? {});
}

export function send(method, path, body) {
  return ask(method, path, body ?? {});
}

async function ask(method, path, body, signal, again = true) {
  const headers = {};
  if (method !== "GET") {
    headers["x-ottla-token"] = session?.token ?? "";
    headers["content-type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiFailure(0, { code: "CONSOLE_GONE", message: "The console does not answer. Is it still running?" });
  }
  const text = await answer.text();
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    // No answer of the API: something else is listening there.
  }
  if (answer.ok && value !== null) return value;
  const failure = new ApiFailure(answer.status, value?.error ?? { code: "BAD_ANSWER", message: `The console answered ${answer.status} without words.` });
  // A console that was started again knows nobody; the page need not notice.
  if (failure.code === "NO_SESSION" && again && path !== "/session") {
    await loadSession();
    return ask(method, path, body, signal, false);
  }
  if (failure.code === "LOGIN_REQUIRED") window.dispatchEvent(new CustomEvent("ottla:login"));
  throw failure;
}

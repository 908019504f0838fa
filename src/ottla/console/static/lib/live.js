// Live news over server-sent events, until `signal` is aborted.

import { loadSession, withQuery } from "./api.js";

const AGAIN_MS = 3000;

/**
 * live("cluster", {}, {signal, whole(value), news(value), problem(error), mended()})
 * `whole` is the whole picture and comes first, and again after every new connection; without
 * `news` every message goes to `whole`. `problem` is told once and `mended` when it is over.
 */
export function live(feed, query, { signal, whole, news = whole, problem = () => {}, mended = () => {} }) {
  let source = null;
  let timer = null;
  let isTold = false;

  const tell = (error) => {
    isTold = true;
    problem(error);
  };
  const well = () => {
    if (isTold) mended();
    isTold = false;
  };
  const open = () => {
    source = new EventSource(withQuery(`/api/v1/live/${feed}`, query));
    source.addEventListener("whole", (event) => {
      well();
      whole(JSON.parse(event.data));
    });
    source.addEventListener("news", (event) => news(JSON.parse(event.data)));
    source.addEventListener("problem", (event) => tell(JSON.parse(event.data)));
    source.addEventListener("mended", well);
    source.onerror = () => {
      source.close();
      if (signal.aborted) return;
      if (!isTold) tell({ code: "CONSOLE_GONE", message: "The console does not answer; trying again." });
      timer = setTimeout(() => loadSession().then(open, () => source.onerror()), AGAIN_MS);
    };
  };
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    source?.close();
  });
  if (!signal.aborted) open();
}

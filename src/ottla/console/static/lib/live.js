// Live news over server-sent events, until `signal` is aborted.

import { loadSession, withQuery } from "./api.js";

const AGAIN_MS = 3000;

/**
 * live("cluster", {}, {signal, whole(value), news(value), problem(error), mended()})
 * `whole` is the whole picture and comes first, and again after every new connection; without
 * `news` every message goes to `whole`. `problem` is told once and `mended` when it is over.
 */
export function live(feed, query, { signal, whole, news = whole, problem = () => {}, mended = () => {} }) {
  const address = withQuery(`/api/v1/live/${feed}`, query);
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
  // A browser does not say why a stream was refused: the same address, asked once more, does.
  const explain = async () => {
    const leave = new AbortController();
    try {
      const answer = await fetch(address, { signal: leave.signal });
      if (!answer.ok) return (await answer.json()).error;
    } catch {
      // Nobody there, or something that is no console.
    } finally {
      leave.abort();
    }
    return { code: "CONSOLE_GONE", message: "The console does not answer; trying again." };
  };
  const open = () => {
    source = new EventSource(address);
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
      explain().then((error) => isTold || signal.aborted || tell(error));
      timer = setTimeout(() => loadSession().then(open, () => source.onerror()), AGAIN_MS);
    };
  };
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    source?.close();
  });
  if (!signal.aborted) open();
}

"""How much work scrolling is for a browser, in time of its own thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Page

STEPS = 60
# To the end of the table, a frame for each step; the longest task that the browser saw meanwhile.
_SCROLL = """async (steps) => {
  const tasks = [0];
  const note = (list) => tasks.push(...list.getEntries().map((one) => one.duration));
  const observer = new PerformanceObserver(note);
  observer.observe({ type: "longtask" });
  const box = document.querySelector(".table-box");
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const end = box.scrollHeight - box.clientHeight;
  for (let i = 1; i <= steps; i += 1) {
    box.scrollTop = (end * i) / steps;
    await frame();
  }
  await frame();
  await new Promise((resolve) => setTimeout(resolve, 0));
  observer.disconnect();
  return Math.max(...tasks);
}"""


class Scrolled(NamedTuple):
    # Of the page's main thread, on average.
    cpu_ms_per_frame: float
    # By the clock on the wall: others may have had the processor.
    longest_task_ms: float


def scroll_to_the_end(page: Page) -> Scrolled:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked_s() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    before_s = worked_s()
    longest_ms = page.evaluate(_SCROLL, STEPS)
    took_s = worked_s() - before_s
    session.send("Performance.disable")
    session.detach()
    return Scrolled(took_s * 1000 / STEPS, float(longest_ms))

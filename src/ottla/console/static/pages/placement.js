// Brokers x partitions. A replica's mark is dragged to another broker, or opened by Enter: both
// propose a move. Nothing is done before the reader has seen what it copies.

import { get } from "../lib/api.js";
import { confirmWrite, modal } from "../lib/confirm.js";
import { debounced, fill, h, setText } from "../lib/dom.js";
import { field, showAtField } from "../lib/form.js";
import { bytes, count, plural } from "../lib/format.js";
import { live } from "../lib/live.js";
import { failure, notice, problemPlace } from "../lib/notices.js";
import { keepInAddress } from "../lib/router.js";

export const title = "Placement";
export const question = "Where is everything?";

const ROW_PX = 34;
const BEYOND = 10;
// What a mark says: letter, class, words.
const MARKS = {
  leader: ["L", "leader"],
  in_sync: ["F", "follower, in sync"],
  behind: ["B", "behind"],
  offline: ["X", "offline"],
  adding: ["+", "being added"],
  removing: ["−", "being removed"],
};

export function mount(root, { query, signal, side }) {
  const page = new PlacementPage(query, signal);
  fill(side, page.planButton());
  fill(root, page.node);
  page.start();
}

class PlacementPage {
  constructor(query, signal) {
    this.signal = signal;
    this.seen = null;
    this.moving = new Map();
    this.pending = new Map(); // "topic-partition" -> {topic, partition, now, target}
    this.rows = [];
    this.problem = problemPlace();
    this.search = h("input", { type: "search", "aria-label": "Topic", placeholder: "Topic", value: query.get("topic") ?? "", autocomplete: "off", spellcheck: "false" });
    this.broker = h("select", { "aria-label": "Broker" }, h("option", { value: "" }, "All brokers"));
    this.wantedBroker = query.get("broker") ?? "";
    this.onlyWrong = h("input", { type: "checkbox", id: "only-wrong", checked: query.get("only") === "wrong" });
    this.total = h("span", { class: "muted", role: "status" });
    this.pendingPlace = h("div", { class: "placement-place" });
    this.runningPlace = h("div", { class: "placement-place stack" });
    this.grid = new Grid(this);
    const refilter = debounced(120, () => this.filter());
    this.search.addEventListener("input", refilter);
    this.broker.addEventListener("change", () => this.filter());
    this.onlyWrong.addEventListener("change", () => this.filter());
    this.node = h(
      "div",
      { class: "stack" },
      this.problem.node,
      this.runningPlace,
      this.pendingPlace,
      h("div", {}, h("div", { class: "toolbar" }, this.search, this.broker, h("span", { class: "row" }, this.onlyWrong, h("label", { for: "only-wrong" }, "Only what is wrong")), this.total), legend(), this.grid.node),
    );
  }

  start() {
    const say = { problem: (error) => this.problem.say(error), mended: () => this.problem.say(null) };
    live("placement", {}, { signal: this.signal, whole: (seen) => this.take(seen), ...say });
    live("moves", {}, { signal: this.signal, whole: (running) => this.showRunning(running) });
  }

  take(seen) {
    this.seen = seen;
    seen.alive = new Set(seen.brokers.filter((b) => b.is_alive).map((b) => b.id));
    this.moving = new Map(seen.moves.map(([entry, adding, removing]) => [entry, { adding, removing }]));
    const ids = seen.brokers.map((b) => b.id).join();
    if (this.broker.dataset.ids !== ids) {
      this.broker.dataset.ids = ids;
      const chosen = this.broker.value || this.wantedBroker;
      fill(this.broker, h("option", { value: "" }, "All brokers"), ...seen.brokers.map((b) => h("option", { value: String(b.id) }, `Broker ${b.id}`)));
      this.broker.value = chosen;
    }
    this.filter();
  }

  filter() {
    keepInAddress({ topic: this.search.value, broker: this.broker.value, only: this.onlyWrong.checked ? "wrong" : "" });
    if (!this.seen) return;
    const { seen } = this;
    const text = this.search.value.trim().toLowerCase();
    const broker = this.broker.value === "" ? null : Number(this.broker.value);
    const rows = [];
    for (const [name, first, size] of seen.topics) {
      if (text && !name.toLowerCase().includes(text)) continue;
      for (let entry = first; entry < first + size; entry += 1) {
        if (broker !== null && !seen.sets[seen.replicas[entry]].includes(broker)) continue;
        if (this.onlyWrong.checked && !this.isWrong(entry)) continue;
        rows.push({ name, entry, partition: seen.partitions[entry] });
      }
    }
    this.rows = rows;
    const all = seen.partitions.length;
    setText(this.total, rows.length === all ? plural(all, "partition") : `${count(rows.length)} of ${plural(all, "partition")}`);
    this.grid.draw();
  }

  isWrong(entry) {
    const { seen } = this;
    return seen.leaders[entry] < 0 || seen.sets[seen.in_sync[entry]].length < seen.sets[seen.replicas[entry]].length || this.moving.has(entry);
  }

  replicas(row) {
    return this.seen.sets[this.seen.replicas[row.entry]];
  }

  /** The target that is proposed for a partition, or what it has. */
  target(row) {
    return this.pending.get(`${row.name}-${row.partition}`)?.target ?? this.replicas(row);
  }

  propose(row, target) {
    const key = `${row.name}-${row.partition}`;
    const now = this.replicas(row);
    if (target.join() === now.join()) this.pending.delete(key);
    else this.pending.set(key, { topic: row.name, partition: row.partition, now, target });
    this.showPending();
    this.grid.draw(true);
  }

  move(row, from, to) {
    const target = this.target(row);
    if (from === to || !target.includes(from)) return;
    // Onto a broker that has one already: the two change places.
    const moved = target.map((b) => (b === from ? to : b === to ? from : b));
    this.propose(row, moved);
  }

  lead(row, broker) {
    this.propose(row, [broker, ...this.target(row).filter((b) => b !== broker)]);
  }

  showPending() {
    if (!this.pending.size) {
      fill(this.pendingPlace);
      return;
    }
    const all = [...this.pending.values()];
    const throttle = field({ name: "throttle", label: "Throttle, bytes per second", type: "number", value: this.lastThrottle ?? "10000000", help: "Empty: as fast as it goes.", attributes: { min: 1 } });
    const additional = field({ name: "additional", label: "Beside moves that are under way", type: "checkbox", value: false });
    const problem = h("div", {});
    const run = h("button", { class: "button primary", type: "button" }, "Look at it and run");
    run.addEventListener("click", async () => {
      this.lastThrottle = throttle.input.value;
      fill(problem);
      try {
        await this.run(all, throttle.value(), additional.value());
      } catch (error) {
        if (!showAtField([throttle, additional], error)) fill(problem, failure(error));
      }
    });
    fill(
      this.pendingPlace,
      h(
        "section",
        { class: "card", "aria-label": "Pending moves" },
        h("h2", {}, `Pending: ${plural(all.length, "partition")}`),
        h("ul", { class: "move-list" }, ...all.slice(0, 20).map((one) => this.pendingNode(one)), all.length > 20 ? h("li", { class: "muted" }, `and ${count(all.length - 20)} more`) : null),
        h("div", { class: "pending-form" }, throttle.node, additional.node),
        problem,
        h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => this.dropAll() }, "Discard"), run),
      ),
    );
  }

  pendingNode(one) {
    const drop = h("button", { class: "button quiet small", type: "button", "aria-label": `Discard the move of ${one.topic}-${one.partition}` }, "Discard");
    drop.addEventListener("click", () => {
      this.pending.delete(`${one.topic}-${one.partition}`);
      this.showPending();
      this.grid.draw(true);
    });
    return h("li", {}, h("span", { class: "mono grow" }, `${one.topic}-${one.partition}`), h("span", { class: "mono" }, `${one.now.join(",")} → ${one.target.join(",")}`), drop);
  }

  dropAll() {
    this.pending.clear();
    this.showPending();
    this.grid.draw(true);
  }

  async run(all, throttle, additional) {
    const body = {
      partitions: all.map(({ topic, partition, target }) => ({ topic, partition, replicas: target })),
      throttle,
      additional,
      // A leader that stays stays the leader, until the first replica is elected.
      elect: all.some(({ now, target }) => now[0] !== target[0] && target.includes(now[0])),
    };
    const done = await confirmWrite({ title: `Move ${plural(all.length, "partition")}`, method: "POST", path: "/placement/moves", body, verb: "Move", describe: (plan) => planNode(plan, throttle) });
    if (done !== null) this.dropAll();
  }

  showRunning(running) {
    const left = running.throttles_left ? notice("warn", `Throttles may still be set: ${running.throttles_left}`, { more: this.throttleButton(running.topics_left) }) : null;
    if (!running.count) {
      fill(this.runningPlace, running.is_watched ? notice("info", "The moves are done; throttles are being removed.") : left);
      return;
    }
    const cancel = h("button", { class: "button", type: "button", onclick: () => this.cancel(running.moves) }, running.moves.length === 1 ? "Cancel it" : "Cancel them");
    fill(
      this.runningPlace,
      left,
      h(
        "section",
        { class: "card", "aria-label": "Moves under way" },
        h("div", { class: "row" }, h("h2", { class: "grow" }, `Under way: ${plural(running.count, "partition")}`), cancel),
        h("ul", { class: "move-list" }, ...running.moves.slice(0, 20).map(runningNode), running.count > 20 ? h("li", { class: "muted" }, `and ${count(running.count - 20)} more`) : null),
      ),
    );
  }

  throttleButton(topics) {
    if (!topics.length) return null;
    const partitions = topics.map((topic) => ({ topic, partition: 0 }));
    const remove = async () => {
      try {
        await confirmWrite({ title: "Remove throttles", method: "POST", path: "/placement/throttles", body: { partitions }, verb: "Remove them" });
      } catch (error) {
        this.problem.say(error);
      }
    };
    return h("button", { class: "button small", type: "button", onclick: remove }, "Remove them");
  }

  async cancel(moves) {
    const partitions = moves.map(({ topic, partition }) => ({ topic, partition }));
    try {
      await confirmWrite({ title: `Cancel ${plural(moves.length, "move")}`, method: "POST", path: "/placement/cancel", body: { partitions }, verb: "Cancel the moves", danger: true, describe: () => h("p", {}, "Replicas go back to where they were; what was copied is deleted, and throttles are removed.") });
    } catch (error) {
      this.problem.say(error);
    }
  }

  /** The same as a drag, for keys and phones. */
  async openReplica(row, broker) {
    const target = this.target(row);
    const others = this.seen.brokers.filter((b) => b.is_alive && !target.includes(b.id));
    const name = `${row.name}-${row.partition}`;
    await modal(`Replica of ${name} on broker ${broker}`, (close) => {
      const to = field({ name: "to", label: "Move to broker", type: "select", options: others.map((b) => ({ value: String(b.id), label: b.rack === null ? `Broker ${b.id}` : `Broker ${b.id}, rack ${b.rack}` })), value: String(others[0]?.id ?? "") });
      const move = h("button", { class: "button primary", type: "button", onclick: () => (this.move(row, broker, Number(to.value())), close()) }, "Propose the move");
      const lead = h("button", { class: "button", type: "button", onclick: () => (this.lead(row, broker), close()) }, "Make it the leader");
      return [
        others.length ? to.node : h("p", { class: "muted" }, "Every broker that is alive has a replica of it already."),
        h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Close"), target[0] === broker ? null : lead, others.length ? move : null),
      ];
    });
  }

  planButton() {
    return h("button", { class: "button", type: "button", onclick: () => this.openPlan() }, "Generate a plan");
  }

  async openPlan() {
    if (!this.seen) return;
    const alive = this.seen.brokers.filter((b) => b.is_alive);
    await modal("Generate a plan", (close) => {
      const topics = field({ name: "topics", label: "Topics, with commas between them", value: this.search.value || "" });
      const boxes = alive.map((b) => field({ name: `use-${b.id}`, label: b.rack === null ? `Broker ${b.id}` : `Broker ${b.id}, rack ${b.rack}`, type: "checkbox", value: true }));
      const brokers = h("fieldset", { class: "plan-brokers" }, h("legend", {}, "Brokers to use; the others are drained"), ...boxes.map((box) => box.node));
      const racks = field({ name: "rack_aware", label: "Spread over racks", type: "checkbox", value: true });
      const problem = h("div", {});
      const go = h("button", { class: "button primary", type: "button" }, "Propose it");
      go.addEventListener("click", async () => {
        const use = alive.filter((_, i) => boxes[i].value()).map((b) => b.id);
        fill(problem);
        try {
          const moves = await get("/placement/plan", { topics: topics.value().replaceAll(" ", ""), brokers: use.join(","), rack_aware: racks.value() });
          for (const one of moves) this.pending.set(`${one.topic}-${one.partition}`, { topic: one.topic, partition: one.partition, now: one.replicas, target: one.target });
          this.showPending();
          this.grid.draw(true);
          close();
        } catch (error) {
          if (!showAtField([topics], error)) fill(problem, failure(error));
        }
      });
      return [h("p", { class: "muted" }, "A placement as for new topics, as `ottla reassign --generate` makes it. It becomes a list of pending moves."), topics.node, brokers, racks.node, problem, h("div", { class: "actions" }, h("button", { class: "button", type: "button", onclick: () => close() }, "Close"), go)];
    });
  }
}

function planNode(plan, throttle) {
  if (!plan.moves.length) return notice("info", "Everything is there already: nothing will be copied.");
  const seconds = throttle && plan.bytes ? Math.ceil(plan.bytes / throttle) : null;
  return h(
    "div",
    {},
    h("p", {}, plan.bytes ? `${bytes(plan.bytes)} will be copied${seconds === null ? "" : `, in about ${plural(seconds, "second")} at that throttle`}.` : "Nothing will be copied."),
    plan.warnings.map((words) => notice("warn", words)),
    h("ul", { class: "move-list" }, ...plan.moves.slice(0, 20).map((one) => h("li", {}, h("span", { class: "mono grow" }, `${one.topic}-${one.partition}`), h("span", { class: "mono" }, `${one.replicas.join(",")} → ${one.target.join(",")}`), h("span", { class: "num nowrap" }, one.bytes === null ? "size unknown" : bytes(one.bytes * one.adding.length)))), plan.moves.length > 20 ? h("li", { class: "muted" }, `and ${count(plan.moves.length - 20)} more`) : null),
  );
}

function runningNode(one) {
  const name = `${one.topic}-${one.partition}`;
  const bars = one.copies.map((copy) => {
    const most = one.leader_bytes;
    const known = most !== null && copy.bytes !== null;
    const words = known ? `${bytes(Math.min(copy.bytes, most))} of ${bytes(most)}` : "size unknown";
    return h("span", { class: "copy" }, h("span", { class: "muted small" }, `to ${copy.broker}`), h("progress", { max: known ? Math.max(most, 1) : 1, value: known ? Math.min(copy.bytes, Math.max(most, 1)) : 0, "aria-label": `${name} to broker ${copy.broker}` }), h("span", { class: "num small nowrap" }, words));
  });
  return h("li", {}, h("span", { class: "mono grow" }, name), ...(bars.length ? bars : [h("span", { class: "muted" }, `removing ${one.removing.join(",") || "nothing"}`)]));
}

function legend() {
  return h("ul", { class: "legend", "aria-label": "Marks" }, ...Object.entries(MARKS).map(([kind, [letter, words]]) => h("li", {}, h("span", { class: `mark ${kind}`, "aria-hidden": "true" }, letter), words)));
}

/** Only the rows in sight are in the document. */
class Grid {
  constructor(page) {
    this.page = page;
    this.head = h("div", { class: "grid-head", role: "row" });
    this.body = h("div", { class: "grid-body", role: "rowgroup" });
    this.table = h("div", { role: "table", "aria-label": "Replicas of partitions on brokers", class: "grid-table" }, h("div", { role: "rowgroup", class: "grid-top" }, this.head), this.body);
    this.node = h("div", { class: "grid-box", tabindex: "0", role: "region", "aria-label": "Placement" }, this.table);
    this.columns = "";
    this.drag = null;
    this.isDue = false;
    this.node.addEventListener("scroll", () => this.soon());
    new ResizeObserver(() => this.soon()).observe(this.node);
    this.body.addEventListener("pointerdown", (event) => this.take(event));
    this.body.addEventListener("click", (event) => this.open(event));
  }

  soon() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.draw();
    });
  }

  draw() {
    const { seen, rows } = this.page;
    if (!seen || this.drag) return; // what is being dragged stays where it is
    this.drawHead(seen);
    this.body.style.height = `${Math.max(rows.length, 1) * ROW_PX}px`;
    this.table.setAttribute("aria-rowcount", String(rows.length + 1));
    if (!rows.length) {
      fill(this.body, h("div", { role: "row" }, h("div", { role: "cell", class: "grid-none muted" }, seen.partitions.length ? "No partition is like that." : "There are no topics yet.")));
      return;
    }
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW_PX) - BEYOND);
    const last = Math.min(rows.length, Math.ceil((this.node.scrollTop + (this.node.clientHeight || 800)) / ROW_PX) + BEYOND);
    const focused = document.activeElement?.dataset?.mark;
    const known = new Map([...this.body.children].map((node) => [node.dataset.drawn, node]));
    const nodes = [];
    for (let i = first; i < last; i += 1) {
      const text = this.rowText(rows[i]);
      const node = known.get(text) ?? this.rowNode(rows[i], text);
      node.style.top = `${i * ROW_PX}px`;
      node.setAttribute("aria-rowindex", String(i + 2));
      node.row = rows[i];
      nodes.push(node);
    }
    if (nodes.length !== this.body.children.length || nodes.some((node, i) => this.body.children[i] !== node)) {
      this.body.replaceChildren(...nodes);
      if (focused) this.body.querySelector(`[data-mark="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  }

  drawHead(seen) {
    const columns = JSON.stringify(seen.brokers);
    if (this.columns === columns) return;
    this.columns = columns;
    this.body.replaceChildren();
    this.table.style.setProperty("--brokers", seen.brokers.length);
    let before;
    fill(
      this.head,
      h("div", { role: "columnheader", class: "grid-name" }, "Partition"),
      ...seen.brokers.map((b) => {
        const rack = b.is_alive ? (b.rack ?? "") : "down";
        const begins = rack !== before;
        before = rack;
        return h("div", { role: "columnheader", class: `grid-broker ${begins ? "begins" : ""} ${b.is_alive ? "" : "bad-text"}` }, h("span", { class: "grid-rack clip" }, begins ? rack : ""), h("span", {}, String(b.id)));
      }),
    );
  }

  rowText(row) {
    const { seen, moving, pending } = this.page;
    const move = moving.get(row.entry);
    const wish = pending.get(`${row.name}-${row.partition}`);
    return JSON.stringify([row.name, row.partition, seen.leaders[row.entry], seen.sets[seen.replicas[row.entry]], seen.sets[seen.in_sync[row.entry]], seen.sets[seen.offline[row.entry]], move, wish?.target]);
  }

  rowNode(row, text) {
    const { seen } = this.page;
    const marks = this.marks(row);
    let before;
    return h(
      "div",
      { class: "grid-row", role: "row", dataset: { drawn: text } },
      h("div", { role: "rowheader", class: "grid-name mono clip", title: `${row.name}-${row.partition}` }, `${row.name}-${row.partition}`),
      ...seen.brokers.map((b) => {
        const rack = b.is_alive ? (b.rack ?? "") : "down";
        const begins = rack !== before;
        before = rack;
        return h("div", { role: "cell", class: `grid-cell ${begins ? "begins" : ""}`, dataset: { broker: b.id } }, marks.get(b.id));
      }),
    );
  }

  marks(row) {
    const { seen, moving, pending } = this.page;
    const name = `${row.name}-${row.partition}`;
    const now = seen.sets[seen.replicas[row.entry]];
    const target = pending.get(name)?.target ?? now;
    const move = moving.get(row.entry) ?? { adding: [], removing: [] };
    const found = new Map();
    for (const broker of new Set([...now, ...target])) {
      const kind = this.kindOf(row, broker, now, move);
      const [letter, words] = MARKS[kind];
      const wish = !target.includes(broker) ? "leaves" : !now.includes(broker) ? "comes" : target[0] === broker && now[0] !== broker ? "leads" : "";
      const said = { leaves: ", is to leave", comes: ", is to come", leads: ", is to lead", "": "" }[wish];
      const label = now.includes(broker) ? `${name} on broker ${broker}: ${words}${said}` : `${name} on broker ${broker}${said}`;
      found.set(broker, h("button", { type: "button", class: `mark ${now.includes(broker) ? kind : "proposed"} ${wish}`, "aria-label": label, title: label, dataset: { mark: `${name}@${broker}`, from: broker } }, now.includes(broker) ? letter : "+"));
    }
    return found;
  }

  kindOf(row, broker, now, move) {
    const { seen } = this.page;
    if (move.adding.includes(broker)) return "adding";
    if (move.removing.includes(broker)) return "removing";
    if (seen.leaders[row.entry] === broker) return "leader";
    if (!seen.alive.has(broker) || seen.sets[seen.offline[row.entry]].includes(broker)) return "offline";
    return seen.sets[seen.in_sync[row.entry]].includes(broker) ? "in_sync" : "behind";
  }

  open(event) {
    const mark = event.target.closest(".mark");
    if (!mark || this.wasDragged) {
      this.wasDragged = false;
      return;
    }
    this.page.openReplica(mark.closest(".grid-row").row, Number(mark.dataset.from));
  }

  take(event) {
    const mark = event.target.closest(".mark");
    this.wasDragged = false;
    if (!mark || event.button !== 0 || event.pointerType === "touch") return;
    event.preventDefault();
    const row = mark.closest(".grid-row");
    const begin = { x: event.clientX, y: event.clientY };
    const ended = new AbortController();
    let over = null;
    const cellAt = (e) => {
      const cell = document.elementFromPoint(e.clientX, e.clientY)?.closest?.(".grid-cell");
      const broker = Number(cell?.dataset.broker);
      return cell && row.contains(cell) && this.page.seen.alive.has(broker) ? cell : null;
    };
    const end = () => {
      ended.abort();
      mark.classList.remove("is-dragged");
      row.classList.remove("takes");
      over?.classList.remove("is-over");
      mark.style.transform = "";
      this.drag = null;
    };
    document.addEventListener(
      "pointermove",
      (e) => {
        if (!this.drag && Math.hypot(e.clientX - begin.x, e.clientY - begin.y) < 5) return;
        this.drag = mark;
        mark.classList.add("is-dragged");
        row.classList.add("takes");
        mark.style.transform = `translate(${e.clientX - begin.x}px, ${e.clientY - begin.y}px)`;
        const cell = cellAt(e);
        if (cell === over) return;
        over?.classList.remove("is-over");
        over = cell;
        over?.classList.add("is-over");
      },
      { signal: ended.signal },
    );
    document.addEventListener(
      "pointerup",
      (e) => {
        const was = this.drag;
        const cell = cellAt(e);
        end();
        if (!was) return;
        this.wasDragged = true;
        setTimeout(() => (this.wasDragged = false), 0);
        if (cell) this.page.move(row.row, Number(mark.dataset.from), Number(cell.dataset.broker));
        this.draw();
      },
      { signal: ended.signal },
    );
    document.addEventListener("pointercancel", () => (end(), this.draw()), { signal: ended.signal });
    document.addEventListener("keydown", (e) => e.key === "Escape" && (end(), this.draw()), { signal: ended.signal });
  }
}

import { fill, h, link, path, setText } from "../lib/dom.js";
import { count, duration, plural, timestamp } from "../lib/format.js";
import { live } from "../lib/live.js";
import { empty, notice, problemPlace } from "../lib/notices.js";
import { navigate } from "../lib/router.js";
import { machine } from "../life/machine.js";
import { addSteps, readRecord, topicsOf } from "../life/story.js";
import { timeline } from "../life/timeline.js";

export const title = "Life of a topic";
export const question = "What happens inside?";

const MAX_FILE_BYTES = 50_000_000;
const MAX_LINKS = 30;

// A record that was opened stays while the reader goes from topic to topic.
let opened = null;

export function mount(root, { params, signal, side }) {
  const topic = params.name ?? null;
  const steps = [];
  const known = new Set();
  const problem = problemPlace();
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Asking the controller…"));
  let view = null;

  const take = (life) => {
    if (life.head === null) {
      view = null;
      fill(place, empty("Only Ottla's controller can be looked into, and this cluster's is another's: Apache Kafka does not tell what its controller thinks."), openPart());
      return;
    }
    if (view === null) {
      view = page(topic, life.head, signal);
      fill(place, view.node, openPart());
    }
    const added = addSteps(steps, known, life.steps);
    view.update(life.head, steps, life.brokers, added > 0);
  };

  const openPart = () => h("div", { class: "row" }, filePicker((record, error) => {
    if (error) {
      problem.say({ message: error.message });
      return;
    }
    opened = record;
    navigate(topicsOf(record.life.steps).includes(topic) || topic === null ? location.pathname : "/life");
  }));

  fill(side, h("a", { class: "button", href: "/api/v1/life/record", download: "ottla-life.json" }, "Save a record"));
  fill(root, problem.node, place);
  if (opened) {
    const close = h("button", { class: "button small", type: "button", onclick: () => { opened = null; navigate(location.pathname); } }, "Back to the live cluster");
    fill(root, problem.node, h("div", { class: "stack" }, notice("info", `This is a record of ${timestamp(opened.saved_ms)}, not the cluster as it is now.`, { more: close }), place));
    take(opened.life);
    return;
  }
  live("life", {}, {
    signal,
    problem: (error) => problem.say(error),
    mended: () => problem.say(null),
    whole: take,
  });
}

function page(topic, head, signal) {
  const now = headline();
  const machines = [machine("partition", head), machine("replica", head)];
  const topics = h("div", {});
  const story = topic === null ? null : timeline(signal);
  const waits = h("div", {});
  let wasEmpty = null;
  const node = h("div", { class: "stack" });

  return {
    node,
    update(next, steps, brokers, isNew) {
      now.update(next);
      for (const one of machines) one.update(next);
      if (!isNew && wasEmpty !== null) return;
      const own = topic === null ? steps : steps.filter((step) => step.topic === topic);
      const isEmpty = own.length === 0;
      if (isEmpty !== wasEmpty) {
        wasEmpty = isEmpty;
        const pictures = h("div", { class: "machines" }, machines.map((one) => one.node));
        fill(node, topic === null ? [now.node, pictures, topics] : [h("div", { class: "row" }, link("/life", "All topics"), h("h2", { class: "topic-name mono" }, topic)), isEmpty ? waits : story.node, now.node, pictures]);
      }
      if (topic === null) fill(topics, topicList(steps));
      else if (isEmpty) fill(waits, empty(`Nothing is known of ${topic}: it was not changed lately. Create, expand or delete it, and watch.`));
      else story.show(own, brokers);
    },
  };
}

function headline() {
  const who = h("dd", {});
  const epoch = h("dd", {});
  const length = h("dd", {});
  const hand = h("dd", {});
  const taken = h("dd", {});
  const stat = (name, value) => h("div", { class: "stat" }, h("dt", {}, name), value);
  const queue = h("div", { class: "life-queue" });
  const node = h("section", { class: "stack", "aria-label": "The controller now" }, h("dl", { class: "stats" }, stat("Controller", who), stat("Epoch", epoch), stat("Events that wait", length), stat("Event in hand", hand), stat("Events taken", taken)), queue);
  return {
    node,
    update(head) {
      setText(who, `Broker ${head.broker}`);
      setText(epoch, count(head.epoch));
      setText(length, count(head.queue_length));
      setText(hand, head.in_hand ?? "none");
      setText(taken, count(head.events_taken));
      const alarms = head.illegal_transitions ? notice("bad", `${plural(head.illegal_transitions, "transition")} refused: the controller asked for a step that its tables do not have.`) : null;
      if (head.queue.length || alarms || queue.childNodes.length)
        fill(queue, alarms, head.queue.length ? h("div", { class: "card" }, h("h2", {}, "Event queue"), h("ol", { class: "life-list small" }, head.queue.map((one) => h("li", {}, h("span", { class: "mono" }, one.name), h("span", { class: "muted" }, ` waits for ${duration(one.waited_ms)}`)))), head.queue_length > head.queue.length ? h("p", { class: "muted small" }, `and ${count(head.queue_length - head.queue.length)} more`) : null) : null);
    },
  };
}

function topicList(steps) {
  const names = topicsOf(steps);
  if (names.length === 0) return empty("No topic was created, expanded or deleted lately. Do it, and watch the arrows light up.");
  return h("section", { class: "card" }, h("h2", {}, "Topics that changed lately"), h("ul", { class: "topic-links" }, names.slice(0, MAX_LINKS).map((name) => h("li", {}, link(path`/life/${name}`, name)))), names.length > MAX_LINKS ? h("p", { class: "muted small" }, `and ${count(names.length - MAX_LINKS)} more; put a name behind /life/ in the address`) : null);
}

function filePicker(done) {
  const input = h("input", { type: "file", accept: ".json,application/json", id: "life-record" });
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    try {
      if (file.size > MAX_FILE_BYTES) throw new Error("This file is too large for a record.");
      done(readRecord(await file.text()), null);
    } catch (error) {
      done(null, error);
    }
    input.value = ""; // the same file may be chosen again
  });
  return h("div", { class: "card grow" }, h("label", { for: "life-record" }, h("strong", {}, "Play a saved record: ")), input);
}

// The usage statistics of a transcript: requested in ranges as its records are drawn.
import { api } from "../api.js";
import { useEffect, useState } from "../vendor/preact-htm.module.js";

const MAX_RECORDS = 200; // records in one request
const REQUEST_INTERVAL = 1000; // milliseconds between two requests: a quick turn commits many replies
const UNSETTLED = new Set(["pending", "sending", "streaming"]); // states of deliveries that will change
const LONGEST_WAIT = 60_000; // milliseconds, the longest wait before a delivery is requested again

/** Each entry notifies its own listeners only, so that nothing else is drawn again. */
export class StatsLoader {
  #id;
  #replies = new Map(); // seq → stats
  #turns = new Map(); // id → stats
  #followers = new Map(); // seq or turn id → listeners
  #requested = new Map(); // seq → id of the turn that is requested with it, or null
  #timer = 0;
  #lastRequest = 0; // the time of the last request
  #wait = 5000; // milliseconds until unsettled deliveries are requested again
  #ended = false;

  constructor(id) {
    this.#id = id;
  }

  reply(seq) {
    return this.#replies.get(seq) ?? null;
  }

  turn(id) {
    return this.#turns.get(id) ?? null;
  }

  /** `turn`: the one that ends with that record, if its stats are requested too. */
  request(seq, turn = null) {
    if (this.#ended) return;
    this.#requested.set(seq, turn ?? this.#requested.get(seq) ?? null);
    if (this.#timer) return;
    this.#timer = setTimeout(() => this.#flush(), Math.max(30, this.#lastRequest + REQUEST_INTERVAL - Date.now()));
  }

  follow(key, listener) {
    if (!this.#followers.has(key)) this.#followers.set(key, new Set());
    this.#followers.get(key).add(listener);
    return () => {
      this.#followers.get(key)?.delete(listener);
    };
  }

  close() {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  async #flush() {
    const requested = [...this.#requested].sort(([one], [other]) => one - other);
    this.#requested = new Map();
    try {
      for (const range of ranges(requested)) await this.#load(range);
    } catch {
      // The transcript is readable without stats; the next records request them again.
    }
    this.#timer = 0;
    this.#lastRequest = Date.now();
    if (this.#requested.size) this.request(...this.#requested.entries().next().value);
  }

  async #load(range) {
    const [first, last] = [range[0][0], range.at(-1)[0]];
    const turns = range.some(([, turn]) => turn !== null);
    const found = await api.stats(this.#id, { first, last, turns });
    if (this.#ended) return;
    for (const reply of found.replies) this.#publish(this.#replies, reply.record, reply);
    for (const turn of found.turns) this.#publish(this.#turns, turn.id, turn);
    const unsettled = range.find(([, id]) => this.turn(id)?.deliveries.some(({ state }) => UNSETTLED.has(state)));
    if (unsettled) this.#later(unsettled);
  }

  #publish(stats, key, value) {
    stats.set(key, value);
    for (const listener of this.#followers.get(key) ?? []) listener();
  }

  /** No event announces a delivery: it is requested again, at growing intervals. */
  #later([seq, turn]) {
    setTimeout(() => (document.hidden ? this.#later([seq, turn]) : this.request(seq, turn)), this.#wait);
    this.#wait = Math.min(LONGEST_WAIT, this.#wait * 1.5);
  }
}

/** Groups neighbouring records into ranges of at most MAX_RECORDS. */
function ranges(requested) {
  const found = [];
  for (const each of requested) {
    const last = found.at(-1);
    if (last && each[0] - last[0][0] < MAX_RECORDS) last.push(each);
    else found.push([each]);
  }
  return found;
}

/** The stats of a reply, by its seq. */
export function useReply(stats, seq) {
  useStatsEntry(stats, seq, () => stats.reply(seq) ?? stats.request(seq));
  return stats.reply(seq);
}

/** The stats of the turn that ends with the record `seq`; an open one is requested again. */
export function useTurn(stats, id, seq) {
  useStatsEntry(stats, id, () => {
    const known = stats.turn(id);
    if (!known || known.state === "open") stats.request(seq, id);
  }, seq);
  return stats.turn(id);
}

function useStatsEntry(stats, key, request, again) {
  const [, draw] = useState(0);
  useEffect(() => {
    request();
    return stats.follow(key, () => draw((times) => times + 1));
  }, [stats, key, again]);
}

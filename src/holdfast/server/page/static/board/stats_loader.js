// The figures of a transcript: asked for as its records are drawn, a stretch at a time.
import { api } from "../api.js";
import { useEffect, useState } from "../vendor/preact-htm.module.js";

const WIDEST = 200; // records whose figures are asked for at once
const APART = 1000; // milliseconds between two questions: a quick turn commits many replies
const OWED = new Set(["pending", "sending", "streaming"]); // deliveries of which more is to be heard
const PATIENCE = 60_000; // milliseconds, the longest that one of those is left alone

/** Each figure tells those alone who show it: a page of them redraws nothing else. */
export class StatsLoader {
  #id;
  #replies = new Map(); // seq → figures
  #turns = new Map(); // id → figures
  #followers = new Map(); // seq or turn id → listeners
  #wanted = new Map(); // seq → id of the turn that is wanted with it, or null
  #timer = 0;
  #asked = 0; // when it was last asked
  #wait = 5000; // until what is owed is looked at again
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

  /** `turn`: the one that ends with that record, if its figures are wanted. */
  want(seq, turn = null) {
    if (this.#ended) return;
    this.#wanted.set(seq, turn ?? this.#wanted.get(seq) ?? null);
    if (this.#timer) return;
    this.#timer = setTimeout(() => this.#flush(), Math.max(30, this.#asked + APART - Date.now()));
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
    const wanted = [...this.#wanted].sort(([one], [other]) => one - other);
    this.#wanted = new Map();
    try {
      for (const stretch of stretches(wanted)) await this.#ask(stretch);
    } catch {
      // Words are worth reading without figures; the next records ask again.
    }
    this.#timer = 0;
    this.#asked = Date.now();
    if (this.#wanted.size) this.want(...this.#wanted.entries().next().value);
  }

  async #ask(stretch) {
    const [first, last] = [stretch[0][0], stretch.at(-1)[0]];
    const turns = stretch.some(([, turn]) => turn !== null);
    const found = await api.stats(this.#id, { first, last, turns });
    if (this.#ended) return;
    for (const reply of found.replies) this.#tell(this.#replies, reply.record, reply);
    for (const turn of found.turns) this.#tell(this.#turns, turn.id, turn);
    const owed = stretch.find(([, id]) => this.turn(id)?.deliveries.some(({ state }) => OWED.has(state)));
    if (owed) this.#later(owed);
  }

  #tell(figures, key, told) {
    figures.set(key, told);
    for (const listener of this.#followers.get(key) ?? []) listener();
  }

  /** No event tells of a delivery: it is looked at again, ever more seldom. */
  #later([seq, turn]) {
    setTimeout(() => (document.hidden ? this.#later([seq, turn]) : this.want(seq, turn)), this.#wait);
    this.#wait = Math.min(PATIENCE, this.#wait * 1.5);
  }
}

/** Neighbours together, as many as may be asked for at once. */
function stretches(wanted) {
  const found = [];
  for (const each of wanted) {
    const last = found.at(-1);
    if (last && each[0] - last[0][0] < WIDEST) last.push(each);
    else found.push([each]);
  }
  return found;
}

/** What is known of a reply, by its seq. */
export function useReply(figures, seq) {
  useFollowed(figures, seq, () => figures.reply(seq) ?? figures.want(seq));
  return figures.reply(seq);
}

/** What is known of the turn that ends with the record `seq`; one that was open is asked for anew. */
export function useTurn(figures, id, seq) {
  useFollowed(figures, id, () => {
    const known = figures.turn(id);
    if (!known || known.state === "open") figures.want(seq, id);
  }, seq);
  return figures.turn(id);
}

function useFollowed(figures, key, wish, again) {
  const [, draw] = useState(0);
  useEffect(() => {
    wish();
    return figures.follow(key, () => draw((times) => times + 1));
  }, [figures, key, again]);
}

// Messages that are not in a transcript yet: stored until they are, also across reloads.
import { api } from "./api.js";
import { forget, recallAll, remember } from "./local_storage.js";
import { Observable } from "./observable.js";

const RETRY_MS = 3000; // milliseconds until a temporary failure is retried

/**
 * An entry: `message_id` (an idempotency key of the page), `session` (null until a
 * new chat has one; `name` finds it again), `text`, `mode`, `attachments`, `at`, and
 * `state`: "unsent" (with `why`, if the gateway gave a reason) → "accepted" (with the gateway's `id`),
 * or "refused" (with `error`).
 */
export class Outbox extends Observable {
  #sending = null;

  constructor({ onSession, onAccepted }) {
    super();
    // One key for each entry, so that two tabs do not overwrite each other's.
    this.entries = recallAll("outbox.").sort((one, other) => one.at - other.at);
    this.onSession = onSession;
    this.onAccepted = onAccepted;
  }

  of(session, name) {
    const ours = (entry) => (session ? entry.session === session : entry.name === name);
    return this.entries.filter(ours);
  }

  add({ session = null, name = null, text, mode = null, attachments = [] }) {
    const entry = {
      message_id: crypto.randomUUID?.() ?? randomId(),
      session, name, text, mode, attachments,
      at: Date.now() / 1000,
      state: "unsent",
    };
    this.entries = [...this.entries, entry];
    this.#keep(entry);
    this.flush();
    return entry;
  }

  drop(...gone) {
    const left = this.entries.filter((entry) => !gone.includes(entry.message_id));
    if (left.length === this.entries.length) return;
    this.entries = left;
    gone.forEach((id) => forget(`outbox.${id}`));
    this.changed();
  }

  retry(message_id) {
    this.#change(message_id, { state: "unsent", error: undefined });
    this.flush();
  }

  /** Sends unsent entries in order; a call during a run waits for that run. */
  flush() {
    this.#sending ??= this.#send().finally(() => (this.#sending = null));
    return this.#sending;
  }

  /** Removes and returns the accepted entries that have ended, with their messages. */
  async reconcile(session) {
    const over = [];
    for (const entry of this.of(session)) {
      if (entry.state !== "accepted") continue;
      try {
        const message = await api.message(entry.id);
        if (message.state === "queued") continue;
        // If another call has removed it, that call shows its end.
        if (this.entries.some((each) => each.message_id === entry.message_id)) over.push({ entry, message });
        this.drop(entry.message_id);
      } catch (failure) {
        if (failure.temporary) return over;
        this.drop(entry.message_id);
      }
    }
    return over;
  }

  async #send() {
    // Looked up after each send: entries are added and removed meanwhile.
    for (let entry; (entry = this.entries.find((each) => each.state === "unsent")); ) {
      try {
        await this.#deliver(entry);
      } catch (failure) {
        if (failure.temporary) this.#wait(entry, failure);
        if (failure.temporary || failure.unauthenticated) return;
        if (failure.code === "message_id_reused") this.drop(entry.message_id); // the gateway has it already
        else this.#change(entry.message_id, { state: "refused", error: failure.message });
      }
    }
  }

  /** Retries later. A gateway whose store is unavailable gives a reason, which is shown. */
  #wait({ message_id, why }, { code, message }) {
    const answer = code === "store_unavailable" ? message : undefined;
    if (answer !== why) this.#change(message_id, { why: answer });
    setTimeout(() => this.flush(), RETRY_MS);
  }

  async #deliver(entry) {
    if (!entry.session) {
      const session = await api.open(entry.name);
      for (const each of this.of(null, entry.name)) {
        this.#change(each.message_id, { session: session.id });
      }
      entry = this.entries.find((each) => each.message_id === entry.message_id) ?? entry;
      this.onSession(entry.name, session);
    }
    const { message_id, text, mode, attachments } = entry;
    const answer = await api.sendMessage(entry.session, { message_id, text, mode, attachments });
    const known = answer.duplicate && answer.state !== "queued";
    if (known) this.drop(message_id);
    else this.#change(message_id, { state: "accepted", id: answer.id });
    this.onAccepted(entry.session, answer);
  }

  #change(message_id, change) {
    const index = this.entries.findIndex((entry) => entry.message_id === message_id);
    if (index < 0) return;
    const entry = { ...this.entries[index], ...change };
    this.entries = this.entries.with(index, entry);
    this.#keep(entry);
  }

  #keep(entry) {
    const key = `outbox.${entry.message_id}`;
    // If large attachments do not fit, at least the text survives a reload.
    remember(key, entry) || remember(key, { ...entry, attachments: [] });
    this.changed();
  }
}

/** Pages over plain HTTP from another machine have no randomUUID. */
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

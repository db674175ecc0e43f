// One open conversation: its committed records by seq, its live step, and the stream of both.
import { address, api } from "./api.js";
import { LiveStep } from "./live_step.js";
import { Observable } from "./observable.js";
import { Stream } from "./stream.js";

export const CHUNK = 64; // records that are drawn together
const PAGE = 2 * CHUNK; // records in one request: whole chunks
const MAX_TOOL_OUTPUT = 2000; // characters of a tool's output that are loaded before the step is unfolded
const UNDO_COMMANDS = /^\/(?:undo|retry)\b/i; // commands that change existing records
const SWITCH_COMMANDS = /^\/(?:fork|resume|new|reset)\b/i; // commands that switch to another session
const EVENTS = ["record", "live", "text", "reasoning", "tool", "void", "retry", "ended", "session"];

/**
 * Changes of committed records are announced by the conversation itself, changes of the running step
 * by `live`: a streamed delta draws the running step again and nothing else.
 */
export class Conversation extends Observable {
  #stream;
  #events = [];
  #frame = 0;
  #ended = new Set();
  #gapAt = 0;
  #opened = false;
  #closed = false;

  /** `firstAnswer`: the answer of the command that switched to this session. */
  constructor(id, { outbox, onState, onSession, onAnnounce, onLeft, onReturned, firstAnswer = null }) {
    super();
    this.id = id;
    this.session = null;
    this.records = [];
    this.base = 1;
    this.turns = new Map();
    this.answers = []; // answers of commands and of failed messages: {id, text, state, after}
    this.more = false;
    this.problem = null;
    this.loading = true;
    this.live = new LiveStep();
    this.outbox = outbox;
    this.onState = onState;
    this.onSession = onSession;
    this.onAnnounce = onAnnounce;
    this.onLeft = onLeft;
    this.onReturned = onReturned;
    this.firstAnswer = firstAnswer;
    this.#stream = new Stream({
      address: () => address.session(this.id, this.last),
      events: EVENTS,
      onEvent: (name, data) => this.#queueEvent(name, data),
      onState: (state) => this.#connectionChanged(state),
    });
  }

  get last() {
    return this.records.at(-1)?.seq ?? 0;
  }

  get running() {
    return this.live.running || busy(this.session);
  }

  async open() {
    try {
      const detail = await api.session(this.id, PAGE, MAX_TOOL_OUTPUT);
      if (this.#closed) return;
      this.records = detail.records;
      this.base = detail.records[0]?.seq ?? 1; // chunks are counted from here, both ways
      this.more = detail.more;
      this.live.replace(detail.live);
      if (this.firstAnswer) this.answers = [{ ...this.firstAnswer, after: this.last }];
      this.firstAnswer = null;
      this.#applyDetail(detail);
      this.loading = false;
      this.changed();
      this.live.changed();
      this.#stream.open();
      this.#reconcile();
    } catch (failure) {
      this.#failed(failure);
    }
  }

  close() {
    this.#closed = true;
    cancelAnimationFrame(this.#frame);
    this.#stream.close();
  }

  pause() {
    this.#stream.close();
  }

  resume() {
    if (!this.loading && !this.problem) this.#stream.open();
    this.#stream.hurry();
  }

  /** Loads older records, one request at a time; true if there were some. */
  async older(limit = PAGE) {
    if (!this.more || this.loadingOlder) return false;
    this.loadingOlder = true;
    try {
      const before = this.records[0]?.seq;
      const { records, more } = await api.transcript(this.id, { before, limit, max_tool_output: MAX_TOOL_OUTPUT });
      this.records = [...records.filter((record) => record.seq < before), ...this.records];
      this.more = more && records.length > 0;
      return records.length > 0;
    } catch {
      return false; // the next scroll repeats it
    } finally {
      this.loadingOlder = false;
      this.changed();
    }
  }

  /** Loads older records until the one with that seq is there. */
  async reach(seq) {
    while (this.more && this.records[0]?.seq > seq) {
      if (!(await this.older(8 * CHUNK))) return;
    }
  }

  /** The full output of a tool whose record was loaded with a shortened one. */
  async fullOutput({ seq }) {
    const { records } = await api.transcript(this.id, { after: seq - 1, limit: 1 });
    return records[0]?.message.text ?? "";
  }

  async stop() {
    await api.stop(this.id);
  }

  /** Answers the last message again. */
  retry() {
    this.outbox.add({ session: this.id, text: "/retry" });
  }

  /** The gateway accepted a message; its end may have been streamed before that. */
  accepted({ id }) {
    if (this.#ended.has(id)) this.#settle({ id });
    // A command ends so soon that its end may have been streamed before the stream was open.
    else if (this.outbox.of(this.id).some((entry) => entry.id === id && isCommand(entry))) this.#reconcile();
  }

  #failed(failure) {
    if (this.#closed) return;
    this.loading = false;
    this.problem = failure;
    this.changed();
    if (failure.temporary) setTimeout(() => this.#retry(), 1500);
    this.onState(failure.temporary ? "waiting" : "open", failure);
  }

  #retry() {
    if (this.#closed) return;
    this.problem = null;
    this.open();
  }

  #connectionChanged(state) {
    this.onState(state);
    if (state === "waiting") this.#checkDeleted();
    if (state !== "open") return;
    if (this.#opened) this.#refresh();
    else this.#reconcile(); // messages that ended before the stream was open
    this.#opened = true;
  }

  /** A stream has no error status: this checks whether the chat was deleted. */
  async #checkDeleted() {
    try {
      await api.session(this.id, 1);
    } catch (failure) {
      if (failure.status !== 404 || this.#closed) return;
      this.#stream.close();
      this.#failed(failure);
    }
  }

  /** Loads how the last turn ended, which no event announces. */
  async #loadTurnEnd() {
    const known = this.turns.get(this.records.at(-1)?.turn_id);
    if (!this.records.length || (known && known.state !== "open")) return;
    try {
      this.#applyDetail(await api.session(this.id, 1));
      if (!this.#closed) this.changed();
    } catch {
      // It is loaded when the chat is opened again.
    }
  }

  /** After a reconnect: loads what is not a record, and so was not streamed again. */
  async #refresh() {
    try {
      this.#applyDetail(await api.session(this.id, 1));
      this.changed();
      await this.outbox.flush();
      await this.#reconcile();
    } catch (failure) {
      if (!failure.temporary) this.#failed(failure);
    }
  }

  #applyDetail({ session, turns }) {
    this.session = session;
    for (const turn of turns) this.turns.set(turn.id, turn);
    this.onSession(session);
  }

  // Events are collected and applied once a frame: a fast model costs no more than a slow one.
  #queueEvent(name, data) {
    this.#events.push([name, data]);
    if (this.#frame) return;
    const show = () => this.#applyEvents();
    this.#frame = document.hidden ? setTimeout(show, 100) : requestAnimationFrame(show);
  }

  #applyEvents() {
    this.#frame = 0;
    const events = this.#events;
    this.#events = [];
    let committed = false;
    for (const [name, data] of events) {
      if (this.#closed) return;
      committed = this.#apply(name, data) || committed;
    }
    if (committed) this.changed();
    this.live.changed();
  }

  /** True if more than the running step changed. */
  #apply(name, data) {
    switch (name) {
      case "record":
        return this.#append(data);
      case "session":
        this.session = data;
        this.onSession(data);
        if (!busy(data)) this.#loadTurnEnd();
        return true;
      case "ended":
        this.#settle(data);
        return true;
      case "live":
        return this.live.replace(data);
      default:
        this.live.add(name, data);
        return false;
    }
  }

  #append(record) {
    if (record.seq <= this.last) return false; // it was loaded before the connection was lost
    if (this.records.length && record.seq > this.last + 1 && this.#gapAt !== record.seq) {
      this.#gapAt = record.seq; // once: a real gap must not be requested twice
      this.#stream.again();
      return false;
    }
    if (this.#gapAt && record.seq > this.#gapAt) this.#gapAt = 0;
    this.records = [...this.records, record];
    const { message } = record;
    if (message.type === "assistant") this.live.empty();
    if (message.type === "assistant" && message.text) this.onAnnounce(message.text);
    if (message.type === "tool") this.live.finish(message.call_id);
    if (message.type === "user") this.#recorded(record);
    return true;
  }

  /** A message of a user is in the transcript: it leaves the outbox. */
  #recorded({ message, message_id }) {
    const waiting = this.outbox.of(this.id);
    const sent =
      waiting.find((entry) => message_id && entry.message_id === message_id) ??
      waiting.find((entry) => isText(entry, message.text));
    if (sent) this.outbox.drop(sent.message_id);
    else if (waiting.length) this.#reconcile();
  }

  /** Shows the answers of commands whose end was missed: they are in no record. */
  async #reconcile() {
    for (const { entry, message } of await this.outbox.reconcile(this.id)) {
      if (this.#closed) return;
      if (isCommand(entry)) {
        this.#answer(entry, message, this.last);
        await this.#applyCommand(entry.text).catch(() => null); // it is loaded when the chat is opened again
      }
    }
    if (!this.#closed) this.changed();
  }

  /** A message has ended: its answer, which is in no record, is requested. */
  async #settle({ id }) {
    this.#ended.add(id);
    const after = this.last; // without records that arrive during the request
    const entry = this.outbox.of(this.id).find((each) => each.id === id);
    if (entry) this.outbox.drop(entry.message_id);
    try {
      if (entry) {
        this.#answer(entry, await api.message(id), after);
        await this.#applyCommand(entry.text);
      }
    } catch {
      // The answer of a command is in no transcript; a later request may return it.
    }
    if (!this.#closed) this.changed();
  }

  /** Loads the effect of a command that no event announces. */
  async #applyCommand(command) {
    if (UNDO_COMMANDS.test(command)) await this.#reread();
    if (!SWITCH_COMMANDS.test(command)) return;
    this.#applyDetail(await api.session(this.id, 1));
    if (!this.session.current) this.onLeft(this.session, this.answers.at(-1));
  }

  /** Loads the current version of the loaded records, in pages of the maximum size. */
  async #reread() {
    const now = new Map();
    for (let before = this.last + 1; before > this.records[0]?.seq; ) {
      const { records } = await api.transcript(this.id, { before, limit: 8 * CHUNK, max_tool_output: MAX_TOOL_OUTPUT });
      if (!records.length) break;
      for (const record of records) now.set(record.seq, record);
      before = records[0].seq;
    }
    this.records = this.records.map((record) => (now.get(record.seq)?.undone ? now.get(record.seq) : record));
  }

  /** Adds the answer of a message that never became a record: a command, or a refused message. */
  #answer(entry, { id, text, reason, state }, after) {
    const command = entry.text;
    const shown = text || reason;
    if (!shown && state !== "superseded") return;
    if (this.records.some(({ message }) => message.type === "user" && isText(entry, message.text))) return;
    // No turn took it before the stop: its author may want to send it after all.
    if (state === "superseded" && !isCommand(entry) && this.session?.current) {
      this.onReturned(entry);
      return;
    }
    this.answers = [...this.answers, { id, text: shown, command, state, after }];
    this.onAnnounce(shown);
  }
}

/** Whether a record is this entry: the gateway adds a line that names the attachments. */
function isText({ text, attachments }, shown) {
  return attachments.length ? shown.startsWith(agentText(text)) : shown.trim() === agentText(text).trim();
}

/** The text that reaches the agent: /queue and /steer only choose when. */
function agentText(text) {
  return text.replace(/^\/(?:queue|q|steer)\s+/i, "");
}

/** A command is answered by the gateway itself, and is in no transcript. */
function isCommand({ text }) {
  return text.startsWith("/") && agentText(text) === text;
}

export const OURS = ["web", "api"]; // platforms whose chats the page can write in

export const writable = ({ current, platform }) => current && OURS.includes(platform);

export function busy(session) {
  return session !== null && session.state !== "idle";
}

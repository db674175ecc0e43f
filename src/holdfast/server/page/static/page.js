// The state of the page: the open chat or view, the connection, and the listeners.
import { api } from "./api.js";
import { Chats } from "./chats.js";
import { Conversation } from "./conversation.js";
import { Observable } from "./observable.js";
import { Outbox } from "./outbox.js";
import { PendingApprovals } from "./pending_approvals.js";
import { ChangeNotifier } from "./change_notifier.js";
import { decoded, parseAddress, VIEWS } from "./views.js";
import { _ } from "./translation.js";

export class Page extends Observable {
  #states = new Map(); // stream → "connecting" | "open" | "waiting"
  #gatewayEvent = null; // the last one
  #composers = new Set();
  #sessionListeners = new Set(); // listeners for changed and deleted sessions

  constructor() {
    super();
    this.status = null;
    this.scope = null; // of the token: "admin", or "read", which changes nothing
    this.commands = [];
    this.loggedOut = false; // no valid cookie: nothing can be shown
    this.conversation = null;
    Object.assign(this, parseAddress(location.hash)); // `view` and its `part`; no view: a chat is shown
    this.viewState = new Map(); // by view: state that is restored when one comes back to it
    this.chatAddress = "#/new"; // the address to return to from the dashboard
    this.changes = new ChangeNotifier();
    this.pending = new PendingApprovals(this.changes, () => !this.view && !document.hidden && !this.loggedOut);
    this.audits = new ChangeNotifier(); // separate, because every tool call adds a row
    this.seek = null;
    this.newName = null; // the name of a new chat; null while a chat is open
    this.drawer = false;
    this.panel = null; // "files", "processes", "memory", "people" or null
    this.theme = document.documentElement.dataset.theme ?? "auto";
    this.announced = "";
    this.dialog = null;
    this.outbox = new Outbox({
      onSession: (name, session) => this.#sessionCreated(name, session),
      onAccepted: (id, message) => this.conversation?.id === id && this.conversation.accepted(message),
    });
    this.chats = new Chats({
      onState: (state) => this.#connection("chats", state),
      onGateway: (event) => this.#gatewayChanged(event),
      onAudit: () => this.audits.notify(),
      onSession: (name, data) => this.#notifySession(name, data),
    });
    // At once: a message may be written before the gateway has answered.
    this.newName = this.#waitingName();
  }

  async start() {
    addEventListener("hashchange", () => this.#route());
    addEventListener("online", () => this.#onVisible());
    addEventListener("pageshow", (event) => event.persisted && this.#onVisible());
    // A browser allows six connections to a site: hidden pages hold none
    // but the one of a running turn.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#onHidden() : this.#onVisible()));
    await this.#loadStatus();
    if (this.loggedOut) return;
    this.chats.open();
    this.outbox.flush();
    this.#route();
  }

  get connected() {
    return ![...this.#states.values()].includes("waiting");
  }

  get viewer() {
    return this.scope === "read";
  }

  goTo(id, seq) {
    location.hash = id ? `#/chat/${encodeURIComponent(id)}${seq ? `/${seq}` : ""}` : "#/new";
  }

  /** Returns from the dashboard to the last chat; does nothing in the chats. */
  toChats() {
    if (!this.view) return;
    history.pushState(null, "", this.chatAddress);
    this.#route();
  }

  set(change) {
    Object.assign(this, change);
    this.changed();
  }

  send({ text, attachments, mode }) {
    const session = this.conversation?.id ?? null;
    this.outbox.add({ session, name: session ? null : this.newName, text, attachments, mode });
  }

  async stop() {
    if (this.viewer) return;
    try {
      await this.conversation?.stop();
    } catch (failure) {
      this.announce(failure.message);
    }
  }

  /** Resolves when the gateway has accepted the restart, and rejects with the reason if not. */
  async restart(mode) {
    await api.restart(mode);
  }

  /** Announces a text to screen readers, once it is complete. */
  announce(text) {
    const plain = text.replace(/[`*_#>|]/g, "").trim();
    this.set({ announced: plain.length > 400 ? `${plain.slice(0, 400)}…` : plain });
  }

  /** Registers a composer, which gets suggested texts. */
  onCompose(listener) {
    this.#composers.add(listener);
    return () => this.#composers.delete(listener);
  }

  /** Called for every session that changes (`"session"`, session) or is deleted (`"deleted"`, its id). */
  onSession(listener) {
    this.#sessionListeners.add(listener);
    return () => this.#sessionListeners.delete(listener);
  }

  compose(text) {
    for (const composer of this.#composers) composer({ text });
  }

  /** Returns a message that was not processed to the composer, with its attachments. */
  #giveBack({ text, attachments }) {
    for (const composer of this.#composers) composer({ text, attachments, added: true });
    this.announce(_("Not processed, because the turn was stopped. The text is in the message box again."));
  }

  setTheme(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("holdfast.theme", theme);
    } catch {
      // It is lost when the page is closed.
    }
    this.set({ theme });
  }

  async rename(session, title) {
    this.chats.put(await api.rename(session.id, title));
  }

  async remove(session) {
    await api.remove(session.id);
    this.chats.forget(session.id);
    this.outbox.drop(...this.outbox.of(session.id).map((entry) => entry.message_id));
    if (this.conversation?.id !== session.id) return;
    if (this.view) location.hash = "#/sessions";
    else this.goTo(null);
  }

  #route() {
    const [, kind, id, seq] = location.hash.split("/");
    this.seek = seq ? Number(seq) : null;
    this.drawer = false;
    Object.assign(this, parseAddress(location.hash));
    if (this.view) this.#leaveChats();
    else this.chatAddress = location.hash || "#/new";
    const sessionId = kind === "chat" && id ? decoded(id) : this.view === "sessions" ? this.part : null;
    if (sessionId === null) return this.#show(null);
    if (this.conversation?.id !== sessionId) this.#show(sessionId);
    else this.changed();
  }

  #leaveChats() {
    this.panel = null;
    if (this.chats.query) this.chats.search("");
  }

  #show(id, firstAnswer = null) {
    const before = this.conversation;
    before?.close();
    this.#states.delete("conversation");
    this.conversation = id && this.#openConversation(id, firstAnswer);
    if (id) this.newName = null;
    // A new chat stays open: its first message may be on its way.
    else if (before || !this.newName) this.newName = this.#waitingName();
    if (!id) document.title = this.view ? `${VIEWS[this.view].label} · Holdfast` : "Holdfast";
    this.changed();
  }

  #openConversation(id, firstAnswer) {
    const conversation = new Conversation(id, {
      outbox: this.outbox,
      onState: (state, failure) => this.#connection("conversation", state, failure),
      onSession: (session) => this.#sessionChanged(session),
      onAnnounce: (text) => this.announce(text),
      onLeft: (session, answer) => this.#followCommand(session, answer),
      onReturned: (entry) => this.#giveBack(entry),
      firstAnswer,
    });
    conversation.open();
    return conversation;
  }

  /** The name of a new chat with unsent messages, so that it survives a reload; else a new name. */
  #waitingName() {
    const waiting = this.outbox.entries.find((entry) => !entry.session && entry.name);
    if (waiting) return waiting.name;
    const bytes = crypto.getRandomValues(new Uint8Array(8));
    return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  }

  #sessionCreated(name, session) {
    this.chats.put(session);
    if (this.newName !== name) return;
    this.chatAddress = `#/chat/${encodeURIComponent(session.id)}`;
    if (this.view) {
      this.newName = this.#waitingName(); // the dashboard stays open, and the link to the chats leads to it
      return;
    }
    history.replaceState(null, "", this.chatAddress);
    this.#show(session.id);
  }

  /** A command has switched the chat to another session: the page opens it, with the answer. */
  async #followCommand({ id, platform, chat }, answer) {
    if (platform !== "web" || this.viewer) return; // only for these platforms the name opens the same chat
    const session = await api.open(chat);
    this.chats.put(session);
    if (this.conversation?.id !== id || session.id === id) return;
    this.followSession(session.id, answer);
  }

  /** Opens the session that the chat continues in. */
  followSession(id, firstAnswer = null) {
    if (this.view) this.part = id;
    else this.chatAddress = `#/chat/${encodeURIComponent(id)}`;
    history.pushState(null, "", this.view ? `#/sessions/${encodeURIComponent(id)}` : this.chatAddress);
    this.seek = null;
    this.#show(id, firstAnswer);
  }

  #notifySession(name, data) {
    this.changes.notify({ soon: data.state === "waiting" }); // for the view of approvals
    for (const listener of this.#sessionListeners) listener(name, data);
  }

  #sessionChanged(session) {
    this.chats.put(session);
    const mark = session.state === "idle" ? "" : "● ";
    document.title = `${mark}${session.title || _("New chat")} · Holdfast`;
    this.changed();
  }

  /** The phase of a stop, a scheduled restart, or blocked accounts. */
  #gatewayChanged(event) {
    this.changes.notify({ soon: true });
    this.#gatewayEvent = event;
    if (!this.status) return;
    this.#applyGatewayEvent(event);
    this.changed();
  }

  #applyGatewayEvent({ state, phase, turns, pending_restart, blocked_accounts }) {
    this.status = { ...this.status, state, phase, pending_restart, blocked_accounts, turns: { ...this.status.turns, running: turns } };
  }

  #connection(stream, state, failure) {
    if (failure?.unauthenticated) this.#logOut();
    // A retry is not a connection yet: the state stays "waiting" until it is open.
    if (state === "connecting" && this.#states.get(stream) === "waiting") return;
    const before = this.connected;
    this.#states.set(stream, state);
    if (state === "waiting" && stream === "chats") this.#loadStatus();
    if (state === "open" && stream === "chats") {
      this.outbox.flush();
      this.#loadStatus();
      this.changes.notify({ soon: true });
      this.audits.notify({ soon: true });
    }
    if (before !== this.connected) this.announce(this.connected ? _("Connected again") : _("Connection lost"));
    this.changed();
  }

  async #loadStatus() {
    try {
      if (!this.scope) this.#applyScope(await api.whoami());
      const before = this.#gatewayEvent;
      this.status = await api.status();
      const blocked = this.status.problems.filter(({ code }) => code === "account_blocked");
      this.status.blocked_accounts = blocked.map(({ what }) => what);
      // An event that came while the request was under way may be newer than its answer.
      if (this.#gatewayEvent !== before) this.#applyGatewayEvent(this.#gatewayEvent);
      if (!this.commands.length) this.commands = await api.commands();
      this.changed();
    } catch (failure) {
      if (failure.unauthenticated) this.#logOut();
    }
  }

  /** The style hides controls that the role may not use; the gateway refuses them, too. */
  #applyScope({ scope }) {
    this.scope = scope;
    document.documentElement.dataset.role = this.viewer ? "viewer" : "owner";
  }

  #logOut() {
    this.chats.close();
    this.conversation?.close();
    this.set({ loggedOut: true, conversation: null });
  }

  #onHidden() {
    this.chats.close();
    if (!this.conversation?.running) this.conversation?.pause();
  }

  async #onVisible() {
    if (this.loggedOut) {
      // The link may have been opened in another tab.
      await api.status().then(() => location.reload(), () => null);
      return;
    }
    this.chats.open();
    this.conversation?.resume();
  }
}


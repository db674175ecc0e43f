// The rows of a turn's timeline: each span in words, with its style and its times.
import { iconOf } from "../view/step.js";
import { _, _n } from "../translation.js";

const OUTCOMES = {
  ok: _("done"),
  error: _("failed"),
  cancelled: _("cancelled; it may have had an effect"),
  not_started: _("not started"),
  refused: _("denied; it was not run"),
  unknown: _("outcome unknown"),
};
const RECOVERIES = {
  attached: _("kept running meanwhile, and was reattached"),
  replayed: _("was run again"),
};
const DECISIONS = {
  approved: _("approved"),
  denied: _("denied"),
  expired: _("expired without an answer"),
  undeliverable: _("could not be delivered to anyone"),
  withdrawn: _("withdrawn with its turn"),
};
const GONE = {
  crash: _("The gateway crashed"),
  stop: _("The gateway was stopped"),
  signal: _("The gateway was stopped by a signal"),
  restart: _("The gateway restarted"),
  replace: _("The gateway was replaced"),
};
const EXIT_STATES = {
  interrupted: _("interrupted in the middle of a step"),
  parked: _("parked between two steps, and continued there"),
  waiting: _("while it waited for a person"),
};
const ARRIVED = {
  sent: _("arrived"),
  failed: _("failed"),
  unknown: _("may have arrived"),
  pending: _("waits to be sent"),
  sending: _("is being sent"),
  streaming: _("is being written"),
};
const ASKED = {
  chat: _("requested in a chat"),
  cli: _("requested on the command line"),
  page: _("requested on this page"),
};
const BAD = ["error", "failed"];
const DENIED = ["refused", "denied"];
const UNCERTAIN = ["unknown", "cancelled", "not_started", "expired", "undeliverable"];

/**
 * Rows in the order of their start: {key, kind, tone, icon, name, about, from, to, end, span}.
 * `to` null: it is running. `end`: how it ended, in words; "" while it runs, or if it ended normally.
 */
export function linesOf({ turn, inputs, spans, deliveries }) {
  const lines = [...inputs.map(taken), ...spans.map(stretch), ...deliveries.map(delivered)];
  // A span that is open although its turn has ended has no end in the store.
  for (const line of lines) if (line.to === null && turn.ended_at !== null && line.kind !== "delivery") line.to = Math.max(line.from, turn.ended_at);
  return lines.sort((one, other) => one.from - other.from);
}

function taken({ id, principal, accepted_at, taken_at, steered }) {
  const name = steered ? _("Steering message") : _("Message");
  return {
    key: `m${id}`, kind: "queue", tone: "wait", icon: "bubble", name, about: _("from {person}", { person: principal }),
    from: accepted_at, to: Math.max(accepted_at, taken_at), end: _("started"), span: null,
  };
}

function delivered({ id, to, state, created_at, updated_at, attempts, error, text }) {
  const over = ["sent", "failed", "unknown"].includes(state);
  const tries = attempts > 1 ? `, ${_n("after {n} attempt", "after {n} attempts", attempts)}` : "";
  return {
    key: `d${id}`, kind: "delivery", tone: tone("delivery", state), icon: "send", name: _("Delivery to {chat}", { chat: to }), about: text.split("\n")[0],
    from: created_at, to: over ? Math.max(created_at, updated_at) : null, end: `${ARRIVED[state] ?? state}${tries}${error ? `: ${error}` : ""}`, span: null,
  };
}

function stretch(span) {
  const { kind, started_at, ended_at, outcome, decision } = span;
  const shown = (WORDS[kind] ?? other)(span);
  const key = span.step !== null ? `s${span.step}` : `${kind}${started_at}${span.approval ?? ""}`;
  return { key, kind, tone: tone(kind, outcome ?? decision), from: started_at, to: ended_at, about: "", end: "", span, ...shown };
}

const WORDS = {
  model: ({ name, outcome }) => ({
    icon: "bulb", name: name || _("Model"), end: { cancelled: _("cancelled without a reply"), error: _("failed without a reply") }[outcome] ?? "",
  }),
  tool: ({ name, summary, outcome, recovery, exit_code }) => ({
    icon: iconOf(name), name: name || _("Tool"), about: summary,
    end: [RECOVERIES[recovery], outcome === "ok" && recovery ? "" : OUTCOMES[outcome], exit_code ? _("exit code {code}", { code: exit_code }) : ""].filter(Boolean).join("; "),
  }),
  approval: ({ name, summary, decision, by }) => ({
    icon: "shield", name: _("Approval of {tool}", { tool: name }), about: summary, end: decision ? decided(decision, by) : "",
  }),
  steer: () => ({ icon: "right", name: _("A steering message reached it") }),
  note: () => ({ icon: "again", name: _("It got a note about the interruption") }),
  compaction: () => ({ icon: "book", name: _("Summary of the conversation so far") }),
  drain: () => ({ icon: "dash", name: _("Paused while the gateway stopped") }),
  downtime: ({ name, by, exit_state }) => ({
    icon: "plug", name: GONE[name] ?? _("The gateway stopped: {reason}", { reason: name }), about: EXIT_STATES[exit_state] ?? "", end: ASKED[by] ?? "",
  }),
};

function decided(decision, by) {
  const text = DECISIONS[decision] ?? decision;
  return by ? _("{decision} by {person}", { decision: text, person: by }) : text;
}

const other = ({ kind, name }) => ({ icon: "dash", name: name || kind });

function tone(kind, end) {
  if (kind === "downtime") return "downtime";
  if (BAD.includes(end)) return "bad";
  if (DENIED.includes(end)) return "denied";
  if (UNCERTAIN.includes(end)) return "uncertain";
  return { model: "model", tool: "tool", approval: "wait", drain: "wait", delivery: "delivery", compaction: "model" }[kind] ?? "mark";
}

const EXIT_TEXTS = {
  interrupted: _("the turn was interrupted in the middle of a step"),
  parked: _("the turn was parked between two steps, and continued from there"),
  waiting: _("the turn waited for a person, and kept waiting"),
};

/** The interruptions of a turn, for the sentences above the waterfall. */
export function story(lines) {
  const found = lines.filter(({ kind }) => kind === "downtime").map(({ name, span }) => ({ name, description: EXIT_TEXTS[span.exit_state] ?? "", from: span.started_at, to: span.ended_at }));
  const calls = lines.filter(({ kind }) => kind === "tool");
  return {
    downtimes: found,
    attached: calls.filter(({ span }) => span.recovery === "attached").length,
    replayed: calls.filter(({ span }) => span.recovery === "replayed").length,
    unknown: calls.filter(({ span }) => span.outcome === "unknown").length,
  };
}

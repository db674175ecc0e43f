// The rows of a turn's timeline: each span in words, with its style and its times.
import { iconOf } from "../view/step.js";

const OUTCOMES = {
  ok: "done",
  error: "failed",
  cancelled: "cut; it may have had an effect",
  not_started: "not started",
  refused: "refused; it was not run",
  unknown: "outcome unknown",
};
const RECOVERIES = {
  attached: "had run on meanwhile, and was attached to",
  replayed: "was run again",
};
const DECISIONS = {
  approved: "approved",
  denied: "denied",
  expired: "nobody answered in time",
  undeliverable: "nobody could be asked",
  withdrawn: "withdrawn with its turn",
};
const GONE = {
  crash: "The gateway crashed",
  stop: "The gateway was stopped",
  signal: "The gateway was stopped by a signal",
  restart: "The gateway restarted",
  replace: "The gateway was replaced",
};
const EXIT_STATES = {
  interrupted: "interrupted in the middle of a step",
  parked: "left between two steps, where it went on",
  waiting: "while it waited for a person",
};
const ARRIVED = {
  sent: "arrived",
  failed: "failed",
  unknown: "may have arrived",
  pending: "waits to be sent",
  sending: "is being sent",
  streaming: "is being written",
};
const BAD = ["error", "failed", "denied"];
const UNCERTAIN = ["unknown", "cancelled", "refused", "not_started", "expired", "undeliverable"];

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
  const name = steered ? "A word to the turn" : "Message";
  return {
    key: `m${id}`, kind: "queue", tone: "wait", icon: "bubble", name, about: `from ${principal}`,
    from: accepted_at, to: Math.max(accepted_at, taken_at), end: "started", span: null,
  };
}

function delivered({ id, to, state, created_at, updated_at, attempts, error, text }) {
  const over = ["sent", "failed", "unknown"].includes(state);
  const tries = attempts > 1 ? `, after ${attempts} attempts` : "";
  return {
    key: `d${id}`, kind: "delivery", tone: tone("delivery", state), icon: "send", name: `Delivery to ${to}`, about: text.split("\n")[0],
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
    icon: "bulb", name: name || "Model", end: { cancelled: "cut; it left no reply", error: "failed; it left no reply" }[outcome] ?? "",
  }),
  tool: ({ name, summary, outcome, recovery }) => ({
    icon: iconOf(name), name: name || "Tool", about: summary,
    end: [RECOVERIES[recovery], outcome === "ok" && recovery ? "" : OUTCOMES[outcome]].filter(Boolean).join("; "),
  }),
  approval: ({ name, summary, decision, by }) => ({
    icon: "shield", name: `Approval of ${name}`, about: summary, end: decision ? `${DECISIONS[decision] ?? decision}${by ? ` by ${by}` : ""}` : "",
  }),
  steer: () => ({ icon: "right", name: "A word reached it" }),
  note: () => ({ icon: "again", name: "It was told of the cut" }),
  compaction: () => ({ icon: "book", name: "Summary of what was said before" }),
  drain: () => ({ icon: "dash", name: "Stood still while the gateway stopped" }),
  downtime: ({ name, by, exit_state }) => ({
    icon: "plug", name: GONE[name] ?? `The gateway went: ${name}`, about: EXIT_STATES[exit_state] ?? "", end: ["chat", "cli", "page"].includes(by) ? `asked by ${by}` : "",
  }),
};

const other = ({ kind, name }) => ({ icon: "dash", name: name || kind });

function tone(kind, end) {
  if (kind === "downtime") return "downtime";
  if (BAD.includes(end)) return "bad";
  if (UNCERTAIN.includes(end)) return "uncertain";
  return { model: "model", tool: "tool", approval: "wait", drain: "wait", delivery: "delivery", compaction: "model" }[kind] ?? "mark";
}

const EXIT_TEXTS = {
  interrupted: "the turn was interrupted in the middle of a step",
  parked: "the turn stood between two steps, and went on from there",
  waiting: "the turn waited for a person, and went on waiting",
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

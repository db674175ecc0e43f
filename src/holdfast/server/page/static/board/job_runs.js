// The runs of a job: when each was due, why it ran, its result, and a link to it.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { lasted } from "../view/times.js";
import { Moment } from "./moment.js";
import { Rows } from "./rows.js";
import { SessionLink } from "./session_link.js";
import { TurnLink } from "./turn_link.js";

const CAUSES = { due: _("scheduled"), missed: _("caught up"), asked: _("on request") };
const STATES = {
  waiting: _("waiting"),
  running: _("running"),
  answered: _("answered"),
  failed: _("failed"),
  stopped: _("stopped"),
  skipped: _("skipped"),
  forgotten: _("forgotten"),
};
/** The state of a run, as a badge. */
export function RunState({ state }) {
  return html`<span class=${`badge ${LOOKS[state] ?? ""}`}>${STATES[state] ?? state}</span>`;
}

const LOOKS = { answered: "good", failed: "bad", running: "running", waiting: "waiting", stopped: "paused", skipped: "paused", forgotten: "paused" };
const COLUMNS = [
  { name: "due", label: _("When"), of: ({ due_at }) => html`<${Moment} at=${due_at} />` },
  { name: "cause", label: _("Reason"), of: ({ cause }) => CAUSES[cause] ?? cause },
  { name: "state", label: _("State"), of: RunState },
  { name: "took", label: _("Took"), tone: "figure", of: ({ due_at, ended_at }) => (ended_at === null ? "–" : lasted(Math.max(0, ended_at - due_at))) },
  { name: "said", label: _("Result"), tone: "words", of: RunResult },
];

export function JobRuns({ runs }) {
  if (!runs.length) return html`<p class="quiet-text">${_("It has not run yet.")}</p>`;
  return html`<${Rows} label=${_("Runs")} columns=${COLUMNS} rows=${runs} keyOf=${({ id }) => id} />`;
}

function RunResult({ text, reason, session_id, turn_id }) {
  return html`
    ${text && html`<span class="excerpt" dir="auto">${text}</span>`}
    ${reason && html`<small class="problem">${reason}</small>`}
    ${session_id && html`<small class="inline-links"><span>${_("session {session}", { session: html`<${SessionLink} id=${session_id} />` })}</span>
      ${turn_id && html`<span>${_("turn {turn}", { turn: html`<${TurnLink} id=${turn_id} />` })}</span>`}</small>`}`;
}

// The runs of a job: when each was due, why it ran, its result, and a link to it.
import { html } from "../vendor/preact-htm.module.js";
import { lasted } from "../view/times.js";
import { Moment } from "./moment.js";
import { Rows } from "./rows.js";
import { SessionLink } from "./session_link.js";
import { TurnLink } from "./turn_link.js";

const CAUSES = { due: "it was due", missed: "made up for", asked: "somebody asked" };
const LOOKS = { answered: "good", failed: "bad", running: "good", stopped: "paused", skipped: "paused", forgotten: "paused" };
const COLUMNS = [
  { name: "due", label: "When", of: ({ due_at }) => html`<${Moment} at=${due_at} />` },
  { name: "cause", label: "Why", of: ({ cause }) => CAUSES[cause] ?? cause },
  { name: "state", label: "State", of: ({ state }) => html`<span class=${`badge ${LOOKS[state] ?? ""}`}>${state}</span>` },
  { name: "took", label: "Took", tone: "figure", of: ({ due_at, ended_at }) => (ended_at === null ? "–" : lasted(Math.max(0, ended_at - due_at))) },
  { name: "said", label: "What came of it", tone: "words", of: RunResult },
];

export function JobRuns({ runs }) {
  if (!runs.length) return html`<p class="quiet-text">It has not run yet.</p>`;
  return html`<${Rows} label="Runs" columns=${COLUMNS} rows=${runs} keyOf=${({ id }) => id} />`;
}

function RunResult({ text, reason, session_id, turn_id }) {
  return html`
    ${text && html`<span class="excerpt">${text}</span>`}
    ${reason && html`<small class="problem">${reason}</small>`}
    ${session_id && html`<small class="inline-links"><span>session <${SessionLink} id=${session_id} /></span>
      ${turn_id && html`<span>turn <${TurnLink} id=${turn_id} /></span>`}</small>`}`;
}

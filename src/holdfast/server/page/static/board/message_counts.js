// The message counts: accepted messages by state, and whether the states add up.
import { html } from "../vendor/preact-htm.module.js";
import { count } from "./number_format.js";

const PARTS = {
  answered: "answered",
  merged: "merged",
  superseded: "superseded",
  refused: "refused",
  failed: "failed",
  running: "in flight",
  queued: "queued",
};

export function MessageCounts({ status }) {
  const { inbox_counts: counts, orphaned } = status;
  if (counts.accepted === undefined) return html`<p class="quiet-text">The store has not said yet.</p>`;
  const sum = Object.keys(PARTS).reduce((total, part) => total + (counts[part] ?? 0), 0);
  const balanced = sum === counts.accepted && !orphaned;
  return html`
    <dl class="message-counts">
      <div class="total"><dt>accepted</dt><dd>${count(counts.accepted)}</dd></div>
      ${Object.entries(PARTS).map(([part, label]) => html`<div key=${part} class=${counts[part] ? part : "none"}>
        <dt>${label}</dt><dd>${count(counts[part] ?? 0)}</dd>
      </div>`)}
    </dl>
    <p class=${balanced ? "counts-note balanced" : "counts-note alarm"} role=${balanced ? undefined : "alert"}>${countsNote(sum, counts.accepted, orphaned)}</p>`;
}

function countsNote(sum, accepted, orphaned) {
  if (orphaned) return `The counts do not match: nothing works on ${count(orphaned)} of the open messages.`;
  if (sum !== accepted) return `The counts do not match: ${count(accepted)} were accepted, and ${count(sum)} are accounted for.`;
  return "The counts match: every message has ended or is being worked on.";
}

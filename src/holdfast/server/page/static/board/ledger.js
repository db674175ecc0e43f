// The ledger: every message that was accepted, by what became of it, and whether that is all of them.
import { html } from "../vendor/preact-htm.module.js";
import { count } from "./figures.js";

const PARTS = {
  answered: "answered",
  merged: "merged",
  superseded: "superseded",
  refused: "refused",
  failed: "failed",
  running: "in flight",
  queued: "queued",
};

export function Ledger({ status }) {
  const { ledger, unowned } = status;
  if (ledger.accepted === undefined) return html`<p class="quiet-text">The store has not said yet.</p>`;
  const sum = Object.keys(PARTS).reduce((total, part) => total + (ledger[part] ?? 0), 0);
  const sound = sum === ledger.accepted && !unowned;
  return html`
    <dl class="ledger">
      <div class="whole"><dt>accepted</dt><dd>${count(ledger.accepted)}</dd></div>
      ${Object.entries(PARTS).map(([part, label]) => html`<div key=${part} class=${ledger[part] ? part : "none"}>
        <dt>${label}</dt><dd>${count(ledger[part] ?? 0)}</dd>
      </div>`)}
    </dl>
    <p class=${sound ? "balance sound" : "balance alarm"} role=${sound ? undefined : "alert"}>${told(sum, ledger.accepted, unowned)}</p>`;
}

function told(sum, accepted, unowned) {
  if (unowned) return `It does not balance: nobody works on ${count(unowned)} of those that are open.`;
  if (sum !== accepted) return `It does not balance: ${count(accepted)} were accepted, and ${count(sum)} are accounted for.`;
  return "It balances: every message has its end, or somebody who works on it.";
}

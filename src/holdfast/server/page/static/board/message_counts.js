// The message counts: accepted messages by state, and whether the states add up.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { count } from "./number_format.js";

const PARTS = {
  answered: _("answered"),
  merged: _("merged"),
  superseded: _("superseded"),
  refused: _("refused"),
  failed: _("failed"),
  running: _("in progress"),
  queued: _("queued"),
};

export function MessageCounts({ status }) {
  const { inbox_counts: counts, orphaned } = status;
  if (counts.accepted === undefined) return html`<p class="quiet-text">${_("The counts are not available yet.")}</p>`;
  const sum = Object.keys(PARTS).reduce((total, part) => total + (counts[part] ?? 0), 0);
  const balanced = sum === counts.accepted && !orphaned;
  return html`
    <dl class="message-counts">
      <div class="total"><dt>${_("accepted")}</dt><dd>${count(counts.accepted)}</dd></div>
      ${Object.entries(PARTS).map(([part, label]) => html`<div key=${part} class=${counts[part] ? part : "none"}>
        <dt>${label}</dt><dd>${count(counts[part] ?? 0)}</dd>
      </div>`)}
    </dl>
    <p class=${balanced ? "counts-note balanced" : "counts-note alarm"} role=${balanced ? undefined : "alert"}>${countsNote(sum, counts.accepted, orphaned)}</p>`;
}

function countsNote(sum, accepted, orphaned) {
  if (orphaned) return _n("The counts do not match: no turn works on {n} of the open messages.", "The counts do not match: no turn works on {n} of the open messages.", orphaned);
  if (sum !== accepted) return _("The counts do not match: {accepted} were accepted, and {sum} are accounted for.", { accepted: count(accepted), sum: count(sum) });
  return _("The counts match: every message was handled or is being worked on.");
}

// The columns of an audit row: when, who, what, effect and details.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Moment } from "./moment.js";
import { SessionLink } from "./session_link.js";
import { TurnLink } from "./turn_link.js";

const LOOKS = { ok: "good", done: "good", approved: "good", error: "bad", failed: "bad", refused: "denied", denied: "denied" };
const SUMMARIES = ["arguments", "command", "text", "why", "reason", "keys"]; // the most important details of a row

export const auditColumns = [
  { name: "seq", label: _("No."), tone: "figure", of: ({ seq }) => seq },
  { name: "at", label: _("When"), of: ({ at }) => html`<${Moment} at=${at} />` },
  { name: "who", label: _("Who"), of: ({ actor }) => html`<span class="clipped" title=${actor}>${actor}</span>` },
  { name: "what", label: _("What"), of: ({ kind, subject }) => html`${kind}${subject && html`<small class="clipped">${subject}</small>`}` },
  { name: "outcome", label: _("Outcome"), of: Outcome },
  { name: "detail", label: _("Details"), tone: "words", of: Detail },
];

function Outcome({ outcome, detail }) {
  return html`<span class=${`badge ${LOOKS[outcome] ?? "paused"}`}>${outcome}</span>
    ${detail.exit_code ? html`<small>${_("exit code {code}", { code: detail.exit_code })}</small>` : null}`;
}

function Detail({ detail, texts_deleted, session_id, turn_id, hash }) {
  const summary = SUMMARIES.map((name) => detail[name]).find(Boolean);
  const facts = Object.entries(detail).filter(([, value]) => value !== null && value !== "");
  return html`
    ${summary && html`<code class="excerpt">${summary}</code>`}
    ${texts_deleted && html`<small>${_("Its texts were deleted with the session.")}</small>`}
    ${session_id && html`<small class="inline-links"><span>${_("session {session}", { session: html`<${SessionLink} id=${session_id} />` })}</span>
      ${turn_id && html`<span>${_("turn {turn}", { turn: html`<${TurnLink} id=${turn_id} />` })}</span>`}</small>`}
    <details class="fold-out"><summary>${_("All details")}</summary><dl>
      ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${String(value)}</dd></div>`)}
      <div><dt>${_("hash")}</dt><dd><code>${hash}</code></dd></div>
    </dl></details>`;
}

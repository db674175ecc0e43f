// Approvals: pending ones of all sessions, decided ones, and standing ones.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Card } from "../view/approvals.js";
import { useFetched } from "../view/use_fetched.js";
import { Rules } from "./approval_rules.js";
import { Moment } from "./moment.js";
import { Rows } from "./rows.js";
import { SessionLink, titleOf } from "./session_link.js";
import { turnAddress } from "./turn_link.js";

const EVERY = 5; // seconds; no event announces the approval request of a subagent
const MOST = 100;

const ENDS = {
  denied: [_("denied"), "denied"],
  expired: [_("expired without an answer"), "paused"],
  undeliverable: [_("could not be delivered to anyone"), "bad"],
  withdrawn: [_("withdrawn: its turn ended first"), "paused"],
};
const SCOPES = { once: _("approved once"), session: _("approved for its chat"), always: _("always approved") };

export function View({ page }) {
  const ask = async () => {
    const [waiting, all, rules] = await Promise.all([api.approvals({ pending: true, limit: MOST }), api.approvals({ limit: MOST }), api.rules()]);
    return { waiting, decided: all.filter(({ state }) => state !== "pending"), rules };
  };
  const { value, problem, refresh } = useFetched(page.changes, ask, EVERY);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || _("Loading…")}</p>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem} ${_("The data shown may be out of date.")}</p>`}
    <section class="card" aria-labelledby="waiting">
      <h2 id="waiting">${_("Waiting")}</h2>
      ${!value.waiting.length && html`<p class="quiet-text">${_("No approval is pending. A command that is dangerous, or that one of your rules names, needs an approval here or in its chat before it runs.")}</p>`}
      <div class="pending-approvals">
        ${[...value.waiting].reverse().map((approval) => html`<${Card} key=${approval.id} approval=${approval} onAnnounce=${(text) => page.announce(text)} onAnswered=${() => page.changes.notify({ soon: true })}>
          <${Asker} page=${page} approval=${approval} />
        <//>`)}
      </div>
    </section>
    <${Rules} page=${page} rules=${value.rules} refresh=${refresh} />
    <section class="card" aria-labelledby="decided">
      <h2 id="decided">${_("Decided")}</h2>
      ${value.decided.length
        ? html`<${Rows} label=${_("Decided")} columns=${columns(page)} rows=${value.decided} keyOf=${({ id }) => id} />`
        : html`<p class="quiet-text">${_("Nothing has been decided yet.")}</p>`}
    </section>`;
}

function Asker({ page, approval: { session_id, turn_id, tool, requester, asked_at } }) {
  return html`<p class="facts">
    <span>${_("{tool} for {person}", { tool: html`<code>${tool}</code>`, person: html`<strong>${requester}</strong>` })}</span>
    <span>${_("in {session}", { session: html`<${SessionLink} id=${session_id} title=${titleOf(page, session_id)} />` })}</span>
    <span>${_("asked {time}", { time: html`<${Moment} at=${asked_at} />` })}</span>
    <a href=${turnAddress(turn_id)}>${_("Timeline")}</a>
  </p>`;
}

function columns(page) {
  return [
    { name: "asked", label: _("Asked"), of: ({ asked_at }) => html`<${Moment} at=${asked_at} />` },
    { name: "what", label: _("What"), tone: "words", of: What },
    { name: "session", label: _("Session"), of: ({ session_id }) => html`<span class="clipped"><${SessionLink} id=${session_id} title=${titleOf(page, session_id)} /></span>` },
    { name: "how", label: _("Decided"), of: How },
    { name: "by", label: _("By"), of: ({ by }) => by || "–" },
  ];
}

function What({ command, reason, comment, turn_id }) {
  return html`<code class="excerpt">${command}</code><small>${reason} <a href=${turnAddress(turn_id)}>${_("Timeline")}</a></small>${comment && html`<small dir="auto">“${comment}”</small>`}`;
}

function How({ state, scope, ended_at }) {
  const [label, tone] = state === "approved" ? [SCOPES[scope] ?? scope, "good"] : ENDS[state] ?? [state, "paused"];
  return html`<span class=${`badge ${tone}`}>${label}</span>${ended_at && html`<small><${Moment} at=${ended_at} /></small>`}`;
}

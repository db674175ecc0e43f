// Approvals: pending ones of all sessions, decided ones, and standing ones.
import { api } from "../api.js";
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
  denied: ["denied", "bad"],
  expired: ["nobody answered in time", ""],
  undeliverable: ["nobody could be asked", "bad"],
  withdrawn: ["withdrawn: its turn ended first", ""],
};
const SCOPES = { once: "approved, once", session: "approved for its chat", always: "approved for good" };

export function View({ page }) {
  const ask = async () => {
    const [waiting, all, rules] = await Promise.all([api.approvals({ pending: true, limit: MOST }), api.approvals({ limit: MOST }), api.rules()]);
    return { waiting, decided: all.filter(({ state }) => state !== "pending"), rules };
  };
  const { value, problem, refresh } = useFetched(page.changes, ask, EVERY);
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || "Loading…"}</p>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem} What is shown is as old as that.</p>`}
    <section class="card" aria-labelledby="waiting">
      <h2 id="waiting">Waiting</h2>
      ${!value.waiting.length && html`<p class="quiet-text">Nothing waits. A command that is dangerous, or that a rule of yours names, is asked about here and in its chat before it runs.</p>`}
      <div class="pending-approvals">
        ${[...value.waiting].reverse().map((approval) => html`<${Card} key=${approval.id} approval=${approval} onAnnounce=${(text) => page.announce(text)} onAnswered=${() => page.changes.notify({ soon: true })}>
          <${Asker} page=${page} approval=${approval} />
        <//>`)}
      </div>
    </section>
    <${Rules} page=${page} rules=${value.rules} refresh=${refresh} />
    <section class="card" aria-labelledby="decided">
      <h2 id="decided">Decided</h2>
      ${value.decided.length
        ? html`<${Rows} label="Decided" columns=${columns(page)} rows=${value.decided} keyOf=${({ id }) => id} />`
        : html`<p class="quiet-text">Nothing has been decided yet.</p>`}
    </section>`;
}

function Asker({ page, approval: { session_id, turn_id, tool, requester, asked_at } }) {
  return html`<p class="facts">
    <span><code>${tool}</code> for <strong>${requester}</strong></span>
    <span>in <${SessionLink} id=${session_id} title=${titleOf(page, session_id)} /></span>
    <span>asked <${Moment} at=${asked_at} /></span>
    <a href=${turnAddress(turn_id)}>Timeline</a>
  </p>`;
}

function columns(page) {
  return [
    { name: "asked", label: "Asked", of: ({ asked_at }) => html`<${Moment} at=${asked_at} />` },
    { name: "what", label: "What", tone: "words", of: What },
    { name: "session", label: "Session", of: ({ session_id }) => html`<span class="clipped"><${SessionLink} id=${session_id} title=${titleOf(page, session_id)} /></span>` },
    { name: "how", label: "Decided", of: How },
    { name: "by", label: "By", of: ({ by }) => by || "–" },
  ];
}

function What({ command, reason, comment, turn_id }) {
  return html`<code class="excerpt">${command}</code><small>${reason} <a href=${turnAddress(turn_id)}>Timeline</a></small>${comment && html`<small>“${comment}”</small>`}`;
}

function How({ state, scope, ended_at }) {
  const [label, tone] = state === "approved" ? [SCOPES[scope] ?? scope, ""] : ENDS[state] ?? [state, ""];
  return html`<span class=${tone}>${label}</span>${ended_at && html`<small><${Moment} at=${ended_at} /></small>`}`;
}

// Turns of all sessions, the newest or the slowest first; and the timeline of one.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { addressOf, setQuery, queryParams } from "./url_query.js";
import { count, lasting, money, short } from "./number_format.js";
import { Choice } from "./filters.js";
import { Moment } from "./moment.js";
import { Pages, Rows } from "./rows.js";
import { SessionLink } from "./session_link.js";
import { Timeline } from "./timeline.js";
import { turnAddress } from "./turn_link.js";
import { STATES, StateBadge } from "./turn_state.js";

const EVERY = 10; // seconds between requests when no event arrives
const PAGE = 50;
const ORDERS = { "": _("Newest first"), slowest: _("Slowest first") };

const COLUMNS = [
  { name: "began", label: _("Began"), of: ({ id, started_at }) => html`<a href=${turnAddress(id)}><${Moment} at=${started_at} /></a>` },
  { name: "state", label: _("State"), of: (turn) => html`<${StateBadge} turn=${turn} />` },
  { name: "session", label: _("Session"), tone: "words", of: SessionCell },
  { name: "took", label: _("Took"), tone: "figure", of: took },
  { name: "steps", label: _("Steps"), tone: "figure", of: ({ steps }) => count(steps) },
  { name: "tokens", label: _("Tokens"), tone: "figure", of: ({ usage }) => short((usage.input_tokens ?? 0) + (usage.output_tokens ?? 0)) },
  { name: "cost", label: _("Cost"), tone: "figure", of: ({ cost }) => (cost === null ? "–" : money(cost)) },
];

export function View({ page }) {
  return page.part === null ? html`<${List} page=${page} />` : html`<${Timeline} key=${page.part} page=${page} id=${page.part} />`;
}

function List({ page }) {
  const { state = "", order = "", before = "" } = queryParams();
  const { value, problem } = useFetched(page.changes, () => api.turns({ state, order, before, limit: PAGE }), EVERY, [state, order, before]);
  const choose = (change) => setQuery(page, "turns", { state, order, ...change });
  return html`
    <div class="filters">
      <${Choice} label=${_("State")} value=${state} choices=${{ "": _("All"), ...STATES, open: _("running or waiting") }} onChoose=${(chosen) => choose({ state: chosen })} />
      <${Choice} label=${_("Order")} value=${order} choices=${ORDERS} onChoose=${(chosen) => choose({ order: chosen })} />
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">${_("Loading…")}</p>`}
    ${value && html`<section class="card flush" aria-label=${_("Turns")}><${Found} value=${value} state=${state} order=${order} before=${before} /></section>`}`;
}

function Found({ value: { turns, more }, state, order, before }) {
  if (!turns.length) return html`<${Nothing} state=${state} />`;
  const older = more && !order && addressOf("turns", { state, before: turns.at(-1).id });
  return html`
    <${Rows} label=${_("Turns")} columns=${COLUMNS} rows=${turns} keyOf=${({ id }) => id} />
    <${Pages} newest=${before && addressOf("turns", { state })} older=${older} />`;
}

function Nothing({ state }) {
  if (state) return html`<div class="empty-hint"><p><strong>${_("None of the latest turns is in this state.")}</strong></p><p><a href=${addressOf("turns")}>${_("Show all")}</a></p></div>`;
  return html`<div class="empty-hint">
    <p><strong>${_("There are no turns yet.")}</strong></p>
    <p>${_("Every message starts a turn or joins one, and every turn is listed here. {start} on this page, or look at {platforms}.", { start: html`<a href="#/new">${_("Start a chat")}</a>`, platforms: html`<a href="#/platforms">${_("the platforms")}</a>` })}</p>
  </div>`;
}

function SessionCell({ session_id, title, platform }) {
  return html`<span class="excerpt"><${SessionLink} id=${session_id} title=${title} />${platform && html` <span class="platform">${platform}</span>`}</span>`;
}

function took({ started_at, ended_at }) {
  return lasting(Math.max(0, (ended_at ?? Date.now() / 1000) - started_at));
}

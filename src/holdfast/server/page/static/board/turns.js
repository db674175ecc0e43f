// Turns of all sessions, the newest or the slowest first; and the timeline of one.
import { api } from "../api.js";
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
const ORDERS = { "": "Newest first", slowest: "Slowest first" };

const COLUMNS = [
  { name: "began", label: "Began", of: ({ id, started_at }) => html`<a href=${turnAddress(id)}><${Moment} at=${started_at} /></a>` },
  { name: "state", label: "State", of: (turn) => html`<${StateBadge} turn=${turn} />` },
  { name: "session", label: "Session", tone: "words", of: SessionCell },
  { name: "took", label: "Took", tone: "figure", of: took },
  { name: "steps", label: "Steps", tone: "figure", of: ({ steps }) => count(steps) },
  { name: "tokens", label: "Tokens", tone: "figure", of: ({ usage }) => short((usage.input_tokens ?? 0) + (usage.output_tokens ?? 0)) },
  { name: "cost", label: "Cost", tone: "figure", of: ({ cost }) => (cost === null ? "–" : money(cost)) },
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
      <${Choice} label="State" value=${state} choices=${{ "": "All", ...STATES, open: "running or waiting" }} onChoose=${(chosen) => choose({ state: chosen })} />
      <${Choice} label="Order" value=${order} choices=${ORDERS} onChoose=${(chosen) => choose({ order: chosen })} />
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">Loading…</p>`}
    ${value && html`<section class="card flush" aria-label="Turns"><${Found} value=${value} state=${state} order=${order} before=${before} /></section>`}`;
}

function Found({ value: { turns, more }, state, order, before }) {
  if (!turns.length) return html`<${Nothing} state=${state} />`;
  const older = more && !order && addressOf("turns", { state, before: turns.at(-1).id });
  return html`
    <${Rows} label="Turns" columns=${COLUMNS} rows=${turns} keyOf=${({ id }) => id} />
    <${Pages} newest=${before && addressOf("turns", { state })} older=${older} />`;
}

function Nothing({ state }) {
  if (state) return html`<div class="empty-hint"><p><strong>No turn in this state among the last.</strong></p><p><a href=${addressOf("turns")}>Show them all</a></p></div>`;
  return html`<div class="empty-hint">
    <p><strong>Nobody has asked for anything yet.</strong></p>
    <p>Every message begins a turn, or joins one, and each is listed here. <a href="#/new">Begin a chat</a> on this page, or see how <a href="#/platforms">the platforms</a> are.</p>
  </div>`;
}

function SessionCell({ session_id, title, platform }) {
  return html`<span class="excerpt"><${SessionLink} id=${session_id} title=${title} />${platform && html` <span class="platform">${platform}</span>`}</span>`;
}

function took({ started_at, ended_at }) {
  return lasting(Math.max(0, (ended_at ?? Date.now() / 1000) - started_at));
}

// The list of sessions, filtered by text, platform, state and person.
import { useObservable } from "../observable.js";
import { html, useEffect, useLayoutEffect, useRef } from "../vendor/preact-htm.module.js";
import { memo } from "../view/memo.js";
import { iso, moment } from "../view/times.js";
import { addressOf, setQuery, queryParams } from "./url_query.js";
import { count, money, short } from "./number_format.js";
import { Choice, TextFilter } from "./filters.js";
import { sessionAddress } from "./session_link.js";
import { SessionRows } from "./session_rows.js";
import { person, SessionState } from "./session_state.js";
import { useStableRow, useWindow } from "./virtual_list.js";

export { Opened } from "./session.js";

const STATES = {
  "": "All", running: "running", waiting: "waiting for a person", queued: "with queued messages", idle: "idle", suspended: "suspended", ended: "ended",
};

export function View({ page }) {
  const { text = "", platform = "", state = "", user = "" } = queryParams();
  const query = { text, platform, state, user };
  const list = sessionRows(page);
  useObservable(list);
  // Also when the gateway is reachable or the page is visible again: there was no stream meanwhile.
  useEffect(() => {
    const refresh = () => document.hidden || list.load(query);
    refresh();
    document.addEventListener("visibilitychange", refresh);
    return () => document.removeEventListener("visibilitychange", refresh);
  }, [list, page.connected, text, platform, state, user]);
  useEffect(() => page.changes.subscribe(() => document.hidden || list.freshen()), [list]);
  const narrow = (change, how) => setQuery(page, "sessions", { ...query, ...change }, how);
  return html`
    <div class="filters" role="search" aria-label="Which sessions">
      <${TextFilter} label="Words that were said" value=${text} placeholder="In every transcript" onText=${(text) => narrow({ text: text }, { typed: true })} />
      <${Choice} label="Platform" value=${platform} choices=${platforms(page, list, platform)} onChoose=${(name) => narrow({ platform: name })} />
      <${Choice} label="State" value=${state} choices=${STATES} onChoose=${(name) => narrow({ state: name })} />
      <${TextFilter} label="Person" value=${user} placeholder="Part of an id" onText=${(text) => narrow({ user: text }, { typed: true })} />
    </div>
    ${list.problem && html`<p class="problem" role="alert">${list.problem} ${list.loaded && "What is shown is as old as that."}</p>`}
    <${Found} list=${list} narrowed=${text || platform || state || user} />`;
}

/** The list is stored on the page, so that going back from a session restores it. */
function sessionRows(page) {
  if (!page.viewState.has("sessions")) page.viewState.set("sessions", new SessionRows(page));
  return page.viewState.get("sessions");
}

function platforms({ status }, list, chosen) {
  const names = new Set(["web", "api", ...(status?.platforms ?? []).map(({ name }) => name), ...list.platforms, chosen].filter(Boolean));
  return { "": "All", ...Object.fromEntries([...names].map((name) => [name, name])) };
}

function Found({ list, narrowed }) {
  const { rows, loaded, more } = list;
  if (!loaded) return list.problem ? null : html`<p class="quiet-text">Loading…</p>`;
  if (!rows.length && narrowed) {
    return html`<div class="card empty-hint" role="status"><p><strong>No session is like that.</strong></p><p><a href=${addressOf("sessions")}>Show them all</a></p></div>`;
  }
  if (!rows.length) {
    return html`<div class="card empty-hint" role="status">
      <p><strong>Nobody has said anything yet.</strong></p>
      <p>Every conversation is listed here, whichever platform it is on. <a href="#/new">Begin one</a> on this page, or see how <a href="#/platforms">the platforms</a> are.</p>
    </div>`;
  }
  return html`<section aria-label="Sessions">
    <p class="visually-hidden" role="status">${more ? `More than ${count(rows.length)} sessions` : `${count(rows.length)} sessions`}</p>
    <${Table} list=${list} rows=${rows} more=${more} />
  </section>`;
}

const COLUMNS = ["Session", "Where and who", "State", "Tokens", "Cost", "Active"];

function Table({ list, rows, more }) {
  const box = useRef(null);
  const { first, last, above, below, height } = useWindow(box, rows.length, () => list.loadMore());
  useStableRow(box, rows, height);
  useScrollPosition(box, list);
  return html`<div class="sessions" role="table" aria-label="Sessions" aria-rowcount=${more ? -1 : rows.length + 1} onKeyDown=${walk}>
    <div role="rowgroup" class="column-heads"><div role="row" aria-rowindex="1">
      ${COLUMNS.map((name) => html`<span key=${name} role="columnheader">${name}</span>`)}
    </div></div>
    <div role="rowgroup" class="body" ref=${box} style=${{ paddingTop: `${above}px`, paddingBottom: `${below}px` }}>
      ${rows.slice(first, last).map((row, n) => html`<${Row} key=${row.id} row=${row} rowIndex=${first + n + 2} />`)}
    </div>
    ${more && html`<p class="quiet-text more">Loading more…</p>`}
  </div>`;
}

/** Restores the scroll position of the list. */
function useScrollPosition(box, list) {
  useLayoutEffect(() => {
    const scroller = box.current.closest(".scroller");
    scroller.scrollTop = list.scroll;
    const keep = () => (list.scroll = scroller.scrollTop);
    scroller.addEventListener("scroll", keep, { passive: true });
    return () => scroller.removeEventListener("scroll", keep);
  }, [list]);
}

const Row = memo(function Row({ row, rowIndex }) {
  const { id, title, platform, chat, active_at, summary } = row;
  return html`<div role="row" aria-rowindex=${rowIndex}>
    <span role="cell" class="title"><a href=${sessionAddress(id)}>${title || "New chat"}</a><small>${lastText(summary)}</small></span>
    <span role="cell" class="where" title=${summary?.owner ?? chat}><span class="platform">${platform}</span> ${chat}<small>${person(summary?.owner, platform)}</small></span>
    <span role="cell" class="state"><${SessionState} session=${row} /></span>
    <span role="cell" class="figure tokens" title=${summary && tokens(summary.usage)}>${summary ? short(all(summary.usage)) : ""}</span>
    <span role="cell" class="figure cost">${summary?.cost == null ? "" : money(summary.cost)}</span>
    <span role="cell" class="figure age"><time datetime=${iso(active_at)} title=${moment(active_at)}>${age(active_at)}</time></span>
  </div>`;
});

/** In one line, without Markdown marks. */
const lastText = (summary) => (summary?.last_text ? `${summary.last_role === "assistant" ? "↳ " : ""}${summary.last_text.replace(/\*\*|`/g, "")}` : "");
const all = ({ input_tokens = 0, output_tokens = 0 }) => input_tokens + output_tokens;
const tokens = ({ input_tokens = 0, output_tokens = 0, cached_tokens = 0 }) =>
  `${count(input_tokens)} read, ${count(cached_tokens)} of them cached; ${count(output_tokens)} written`;

const SPANS = [[3600, 60, "min"], [86400, 3600, "h"], [30 * 86400, 86400, "d"], [365 * 86400, 30 * 86400, "mo"], [Infinity, 365 * 86400, "y"]];

/** How long ago, in a short text. */
function age(at) {
  const passed = Math.max(0, Date.now() / 1000 - at);
  if (passed < 60) return "now";
  const [, unit, name] = SPANS.find(([most]) => passed < most);
  return `${Math.floor(passed / unit)} ${name}`;
}

/** Arrow keys move from row to row. */
function walk(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const here = event.target.closest("[role=row]");
  if (!by || !here) return;
  const next = by > 0 ? here.nextElementSibling : here.previousElementSibling;
  const link = next?.querySelector("a");
  if (!link) return;
  event.preventDefault();
  link.focus();
}

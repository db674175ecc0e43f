// The list of sessions, filtered by text, platform, state and person.
import { useObservable } from "../observable.js";
import { _, _n } from "../translation.js";
import { html, useEffect, useLayoutEffect, useRef } from "../vendor/preact-htm.module.js";
import { memo } from "../view/memo.js";
import { stateName } from "../view/state_name.js";
import { iso, moment } from "../view/times.js";
import { addressOf, setQuery, queryParams } from "./url_query.js";
import { count, money, short } from "./number_format.js";
import { Choice, TextFilter } from "./filters.js";
import { sessionAddress } from "./session_link.js";
import { SessionRows } from "./session_rows.js";
import { chatName, person, SessionState } from "./session_state.js";
import { useStableRow, useWindow } from "./virtual_list.js";

export { Opened } from "./session.js";

const STATES = {
  "": _("All"),
  running: stateName("running"),
  waiting: stateName("waiting"),
  queued: _("with queued messages"),
  idle: stateName("idle"),
  suspended: stateName("suspended"),
  ended: stateName("ended"),
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
    <div class="filters" role="search" aria-label=${_("Filter sessions")}>
      <${TextFilter} label=${_("Text")} value=${text} placeholder=${_("In every transcript")} onText=${(text) => narrow({ text: text }, { typed: true })} />
      <${Choice} label=${_("Platform")} value=${platform} choices=${platforms(page, list, platform)} onChoose=${(name) => narrow({ platform: name })} />
      <${Choice} label=${_("State")} value=${state} choices=${STATES} onChoose=${(name) => narrow({ state: name })} />
      <${TextFilter} label=${_("Person")} value=${user} placeholder=${_("Part of an id")} onText=${(text) => narrow({ user: text }, { typed: true })} />
    </div>
    ${list.problem && html`<p class="problem" role="alert">${list.problem} ${list.loaded && _("The data shown may be out of date.")}</p>`}
    <${Found} list=${list} narrowed=${text || platform || state || user} />`;
}

/** The list is stored on the page, so that going back from a session restores it. */
function sessionRows(page) {
  if (!page.viewState.has("sessions")) page.viewState.set("sessions", new SessionRows(page));
  return page.viewState.get("sessions");
}

function platforms({ status }, list, chosen) {
  const names = new Set(["web", "api", ...(status?.platforms ?? []).map(({ name }) => name), ...list.platforms, chosen].filter(Boolean));
  return { "": _("All"), ...Object.fromEntries([...names].map((name) => [name, name])) };
}

function Found({ list, narrowed }) {
  const { rows, loaded, more } = list;
  if (!loaded) return list.problem ? null : html`<p class="quiet-text">${_("Loading…")}</p>`;
  if (!rows.length && narrowed) {
    return html`<div class="card empty-hint" role="status"><p><strong>${_("No session matches.")}</strong></p><p><a href=${addressOf("sessions")}>${_("Show all")}</a></p></div>`;
  }
  if (!rows.length) {
    return html`<div class="card empty-hint" role="status">
      <p><strong>${_("There are no conversations yet.")}</strong></p>
      <p>${_("The conversations of all platforms are listed here. {start} on this page, or look at {platforms}.", { start: html`<a href="#/new">${_("Start a chat")}</a>`, platforms: html`<a href="#/platforms">${_("the platforms")}</a>` })}</p>
    </div>`;
  }
  return html`<section aria-label=${_("Sessions")}>
    <p class="visually-hidden" role="status">${more ? _n("More than {n} session", "More than {n} sessions", rows.length) : _n("{n} session", "{n} sessions", rows.length)}</p>
    <${Table} list=${list} rows=${rows} more=${more} />
  </section>`;
}

const COLUMNS = [_("Session"), _("Where and who"), _("State"), _("Tokens"), _("Cost"), _("Active")];

function Table({ list, rows, more }) {
  const box = useRef(null);
  const { first, last, above, below, height } = useWindow(box, rows.length, () => list.loadMore());
  useStableRow(box, rows, height);
  useScrollPosition(box, list);
  return html`<div class="sessions" role="table" aria-label=${_("Sessions")} aria-rowcount=${more ? -1 : rows.length + 1} onKeyDown=${walk}>
    <div role="rowgroup" class="column-heads"><div role="row" aria-rowindex="1">
      ${COLUMNS.map((name) => html`<span key=${name} role="columnheader">${name}</span>`)}
    </div></div>
    <div role="rowgroup" class="body" ref=${box} style=${{ paddingTop: `${above}px`, paddingBottom: `${below}px` }}>
      ${rows.slice(first, last).map((row, n) => html`<${Row} key=${row.id} row=${row} rowIndex=${first + n + 2} />`)}
    </div>
    ${more && html`<p class="quiet-text more">${_("Loading more…")}</p>`}
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
  const { id, title, platform, active_at, summary } = row;
  const name = chatName(row);
  return html`<div role="row" aria-rowindex=${rowIndex}>
    <span role="cell" class="title"><a dir="auto" href=${sessionAddress(id)}>${title || _("New chat")}</a><small dir="auto">${lastText(summary)}</small></span>
    <span role="cell" class="where" title=${summary?.owner ?? name}><span class="platform">${platform}</span> ${name}<small>${person(summary?.owner, platform)}</small></span>
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
  _("{read} read, {cached} of them cached; {written} written", { read: count(input_tokens), cached: count(cached_tokens), written: count(output_tokens) });

const SPANS = [
  [3600, 60, (n) => _("{n} min", { n })],
  [86400, 3600, (n) => _("{n} h", { n })],
  [30 * 86400, 86400, (n) => _("{n} d", { n })],
  [365 * 86400, 30 * 86400, (n) => _("{n} mo", { n })],
  [Infinity, 365 * 86400, (n) => _("{n} y", { n })],
];

/** How long ago, in a short text. */
function age(at) {
  const passed = Math.max(0, Date.now() / 1000 - at);
  if (passed < 60) return _("now");
  const [, unit, show] = SPANS.find(([most]) => passed < most);
  return show(count(Math.floor(passed / unit)));
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

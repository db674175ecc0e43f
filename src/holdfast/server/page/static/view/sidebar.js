// The sidebar: the navigation of the dashboard, or the list of chats with its search.
import { useObservable } from "../observable.js";
import { _, _n } from "../translation.js";
import { html, useEffect, useRef } from "../vendor/preact-htm.module.js";
import { Found } from "./search_results.js";
import { Icon, Logo } from "./icons.js";
import { memo } from "./memo.js";
import { Sections, Views } from "./sections.js";
import { stateName } from "./state_name.js";
import { iso, moment, when } from "./times.js";

export function Sidebar({ page, narrow }) {
  const list = useRef(null);
  const closed = narrow && !page.drawer;
  const onKey = (event) => walk(event, list.current);
  // Also for the chat that is open already, where the address does not change.
  const onClick = (event) => event.target.closest("a") && page.set({ drawer: false });
  return html`<nav class=${page.drawer ? "sidebar open" : "sidebar"} aria-label=${page.view ? _("Dashboard") : _("Chats")} inert=${closed} ref=${list} onKeyDown=${onKey} onClick=${onClick}>
    <header>
      <a class="brand" href="#/new"><${Logo} /> Holdfast</a>
      ${narrow && html`<button type="button" class="round" aria-label=${page.view ? _("Close the list of views") : _("Close the list of chats")} onClick=${() => page.set({ drawer: false })}>
        <${Icon} name="close" />
      </button>`}
    </header>
    <${Sections} page=${page} />
    ${page.view ? html`<div class="lists"><${Views} page=${page} /></div>` : html`<${Chats} page=${page} />`}
  </nav>`;
}

function Chats({ page }) {
  const { chats } = page;
  useObservable(chats, page.pending);
  return html`
    <button type="button" class="new" data-changes onClick=${() => page.goTo(null)} title=${_("New chat (Alt+N)")}>
      <${Icon} name="plus" /> ${_("New chat")}
    </button>
    <${Search} chats=${chats} />
    <${PendingApprovals} page=${page} />
    <div class="lists">
      ${chats.found
        ? html`<${Found} page=${page} found=${chats.found} />`
        : html`<${List} page=${page} chats=${chats} />`}
    </div>`;
}

/** Also those of chats that are not in the loaded part of the list. */
function PendingApprovals({ page: { pending } }) {
  if (!pending.number) return null;
  return html`<a class="pending" href="#/approvals"><${Icon} name="shield" /> ${_n("{n} approval is pending", "{n} approvals are pending", pending.number)}</a>`;
}

function Search({ chats }) {
  const timer = useRef(0);
  const field = useRef(null);
  useEffect(() => {
    if (!chats.query && field.current) field.current.value = "";
  }, [chats.query]);
  const onInput = (event) => {
    const { value } = event.currentTarget;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => chats.search(value), value ? 180 : 0);
  };
  return html`<div class="search" role="search">
    <${Icon} name="search" />
    <input ref=${field} type="search" placeholder=${_("Search")} aria-label=${_("Search chats and messages")} autocomplete="off" onInput=${onInput} />
    <kbd aria-hidden="true">${/Mac/.test(navigator.platform) ? "⌘" : _("Ctrl")} K</kbd>
  </div>`;
}

function List({ page, chats }) {
  if (!chats.loaded) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  if (!chats.sessions.length) return html`<p class="quiet-text">${_("No chats yet. Your first message starts one.")}</p>`;
  const open = page.conversation?.id;
  const { asking } = page.pending;
  return html`
    <ul class="chats">
      ${chats.sessions.map((session) => html`<li key=${session.id}>
        <${ChatLink} session=${session} open=${session.id === open} asked=${asking.has(session.id)} />
      </li>`)}
    </ul>
    ${chats.more && html`<button type="button" class="quiet more" onClick=${() => chats.loadMore()}>${_("Older chats")}</button>`}
  `;
}

/** `asked`: an approval is pending, perhaps of an agent that works for this chat in the background. */
export const ChatLink = memo(function ChatLink({ session, open, asked = false }) {
  const { id, title, state, active_at, platform, suspended } = session;
  const asks = asked || state === "waiting";
  const runs = state !== "idle";
  const look = asks ? "waiting" : runs ? "running" : suspended ? "suspended" : "";
  return html`<a href=${`#/chat/${encodeURIComponent(id)}`} class="chat-link" aria-current=${open ? "page" : undefined}>
    <span class=${`dot ${look}`} role=${look ? "img" : undefined} aria-label=${look ? stateName(asks ? "waiting" : runs ? state : "suspended") : undefined}></span>
    <span class="title" dir="auto">${title || _("New chat")}</span>
    ${asks && html`<span class="asks" title=${_("A command waits for your approval")}>${_("approval")}</span>`}
    ${platform && !["api", "web"].includes(platform) && html`<span class="platform">${platform}</span>`}
    <time datetime=${iso(active_at)} title=${moment(active_at)}>${when(active_at)}</time>
  </a>`;
});

/** Arrow keys move through the list, starting at the search field. */
function walk(event, list) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  const stops = [list.querySelector(".search input"), ...list.querySelectorAll(".lists a")].filter(Boolean);
  const at = stops.indexOf(document.activeElement);
  if (at < 0) return;
  event.preventDefault();
  stops[Math.max(0, Math.min(stops.length - 1, at + by))].focus();
}

// Search results: chats by title, and messages.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { ChatLink } from "./sidebar.js";
import { when } from "./times.js";

export function Found({ page, found: { sessions, messages, failed } }) {
  if (failed) return html`<p class="quiet-text">${_("The search failed. Try again.")}</p>`;
  if (!sessions.length && !messages.length) return html`<p class="quiet-text" role="status">${_("Nothing found.")}</p>`;
  const open = page.conversation?.id;
  return html`
    ${sessions.length > 0 && html`<h2>${_("Chats")}</h2>
      <ul class="chats">
        ${sessions.map((session) => html`<li key=${session.id}><${ChatLink} session=${session} open=${session.id === open} /></li>`)}
      </ul>`}
    ${messages.length > 0 && html`<h2>${_("Messages")}</h2>
      <ul class="chats">
        ${messages.map(({ session, seq, at, parts }) => html`<li key=${`${session.id}-${seq}`}>
          <a class="search-result" href=${`#/chat/${encodeURIComponent(session.id)}/${seq}`}>
            <span class="title" dir="auto">${session.title || _("New chat")}</span>
            <time>${when(at)}</time>
            <span class="snippet" dir="auto">${parts.map((piece, n) => (n % 2 ? html`<mark>${piece}</mark>` : piece))}</span>
          </a>
        </li>`)}
      </ul>`}
  `;
}

// The link to a session from anywhere on the dashboard.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

const TELLING = 6; // characters at the end of an id, which are unique; it begins with a time

export const sessionAddress = (id) => `#/sessions/${encodeURIComponent(id)}`;

/** The title that the page knows; "" if the session is not among its chats. */
export const titleOf = (page, sessionId) => page.chats.sessions.find(({ id }) => id === sessionId)?.title ?? "";

/** `title`: without it, the end of the id is shown. */
export function SessionLink({ id, title = "" }) {
  return html`<a class="session-link" dir="auto" href=${sessionAddress(id)} title=${title ? id : _("Session {id}", { id })}>${title || `…${id.slice(-TELLING)}`}</a>`;
}

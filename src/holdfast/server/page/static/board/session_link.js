// The way to a session from wherever the dashboard names one.
import { html } from "../vendor/preact-htm.module.js";

const TELLING = 6; // characters at the end of an id, which tell it from others; it begins with a time

export const sessionAddress = (id) => `#/sessions/${encodeURIComponent(id)}`;

/** What the page knows it to be called; "" of one that is not among its chats. */
export const titleOf = (page, wanted) => page.chats.sessions.find(({ id }) => id === wanted)?.title ?? "";

/** `title`: what it is called where that is known; else it goes by the end of its id. */
export function SessionLink({ id, title = "" }) {
  return html`<a class="session-link" href=${sessionAddress(id)} title=${title ? id : `Session ${id}`}>${title || `…${id.slice(-TELLING)}`}</a>`;
}

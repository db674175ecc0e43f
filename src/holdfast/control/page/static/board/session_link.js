// The way to a session from wherever the dashboard names one.
import { html } from "../vendor/preact-htm.module.js";

const TELLING = 6; // characters at the end of an id, which tell it from others; it begins with a time

export const sessionAddress = (id) => `#/sessions/${encodeURIComponent(id)}`;

/** `title`: what it is called where that is known; else it goes by the end of its id. */
export function SessionLink({ id, title = "" }) {
  return html`<a class="session-link" href=${sessionAddress(id)} title=${title ? id : `Session ${id}`}>${title || `…${id.slice(-TELLING)}`}</a>`;
}

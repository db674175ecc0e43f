// The link to the timeline of a turn from anywhere on the dashboard.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

const TELLING = 6; // characters at the end of an id, which are unique; it begins with a time

export const turnAddress = (id) => `#/turns/${encodeURIComponent(id)}`;

export function TurnLink({ id }) {
  return html`<a class="session-link" href=${turnAddress(id)} title=${_("Turn {id}", { id })}>…${id.slice(-TELLING)}</a>`;
}

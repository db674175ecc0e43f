// A moment of the past or to come, short in a list and whole where one points at it.
import { html } from "../vendor/preact-htm.module.js";
import { iso, lasted, moment, when } from "../view/times.js";

const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

/** The time today; else the day with the time, for several of a list may be of one day. */
export function Moment({ at }) {
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return html`<time datetime=${iso(at)} title=${moment(at)}>${today ? when(at) : DAY_AND_CLOCK.format(date)}</time>`;
}

/** How long ago it was, as of when it is drawn. */
export function Ago({ at }) {
  return html`<time datetime=${iso(at)} title=${moment(at)}>${lasted(Math.max(0, Date.now() / 1000 - at))}</time>`;
}

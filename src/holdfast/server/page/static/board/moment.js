// A point in time, short in a list and complete in its tooltip.
import { locale } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { iso, lasted, moment, when } from "../view/times.js";

const DAY_AND_CLOCK = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

/** The time if it is today, else the day with the time. */
export function Moment({ at }) {
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return html`<time datetime=${iso(at)} title=${moment(at)}>${today ? when(at) : DAY_AND_CLOCK.format(date)}</time>`;
}

/** How long ago it was when it is drawn. */
export function Ago({ at }) {
  return html`<time datetime=${iso(at)} title=${moment(at)}>${lasted(Math.max(0, Date.now() / 1000 - at))}</time>`;
}

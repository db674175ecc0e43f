// When a job is due, in the time zone of the browser and in its own.
import { _, locale } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { iso, moment } from "../view/times.js";

const SHOWN = { weekday: "short", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
const HERE = new Intl.DateTimeFormat(locale, SHOWN);
const THERE = new Intl.DateTimeFormat(locale, { ...SHOWN, timeZone: "UTC" }); // formats a local time of the job's zone

/** `at`: as 2026-12-01T09:00+01:00, in the time zone of the job. */
export function Due({ job, at }) {
  if (!at) return job.paused ? "–" : job.next_due === null ? _("never again") : "–";
  const here = HERE.format(new Date(at));
  const there = THERE.format(new Date(`${at.slice(0, 16)}Z`));
  const seconds = Date.parse(at) / 1000;
  return html`<time datetime=${iso(seconds)} title=${moment(seconds)}>${here}</time>
    ${there !== here && html`<small>${job.zone ? _("{time} in {zone}", { time: there, zone: job.zone }) : _("{time} where the gateway runs", { time: there })}</small>`}`;
}

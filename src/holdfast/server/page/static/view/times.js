// Times, sizes and numbers in the language of the page.
import { _, locale } from "../translation.js";

const CLOCK = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric" });
const YEAR = new Intl.DateTimeFormat(locale, { year: "numeric", month: "short", day: "numeric" });
const WHOLE = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const COUNT = new Intl.NumberFormat(locale);
const TENTHS = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (number) => COUNT.format(number);

/** Short, for a list: the time today, the day this year. */
export function when(seconds) {
  const date = new Date(seconds * 1000);
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return CLOCK.format(date);
  return (date.getFullYear() === now.getFullYear() ? DAY : YEAR).format(date);
}

export const moment = (seconds) => WHOLE.format(new Date(seconds * 1000));
export const iso = (seconds) => new Date(seconds * 1000).toISOString();

/** A duration in its two largest units. */
export function lasted(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds < 0.95) return _("{n} s", { n: count(Math.max(1, Math.round(seconds * 10)) / 10) });
  const whole = Math.round(seconds);
  if (whole < 60) return _("{n} s", { n: whole });
  if (whole < 3600) {
    const values = { minutes: Math.floor(whole / 60), seconds: whole % 60 };
    return values.seconds ? _("{minutes} min {seconds} s", values) : _("{minutes} min", values);
  }
  const minutes = Math.floor(whole / 60);
  const values = { hours: count(Math.floor(minutes / 60)), minutes: minutes % 60 };
  return values.minutes ? _("{hours} h {minutes} min", values) : _("{hours} h", values);
}

export function size(bytes) {
  let unit = 0;
  for (; bytes >= 1000 && unit < SIZES.length - 1; unit += 1) bytes /= 1000;
  return SIZES[unit](unit && bytes < 10 ? TENTHS.format(bytes) : count(Math.round(bytes)));
}

const SIZES = [
  (n) => _("{n} B", { n }),
  (n) => _("{n} kB", { n }),
  (n) => _("{n} MB", { n }),
  (n) => _("{n} GB", { n }),
  (n) => _("{n} TB", { n }),
];

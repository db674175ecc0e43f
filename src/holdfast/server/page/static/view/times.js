// Times and sizes in words.
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const YEAR = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Short, for a list: the time today, the day this year. */
export function when(seconds) {
  const date = new Date(seconds * 1000);
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return CLOCK.format(date);
  return (date.getFullYear() === now.getFullYear() ? DAY : YEAR).format(date);
}

export const moment = (seconds) => WHOLE.format(new Date(seconds * 1000));
export const iso = (seconds) => new Date(seconds * 1000).toISOString();

export function lasted(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds < 0.95) return `${Math.max(1, Math.round(seconds * 10)) / 10} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const [one, other, parts] = whole < 3600 ? ["min", "s", whole] : ["h", "min", Math.floor(whole / 60)];
  return `${Math.floor(parts / 60)} ${one}${parts % 60 ? ` ${parts % 60} ${other}` : ""}`;
}

export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit += 1) bytes /= 1000;
  return `${unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

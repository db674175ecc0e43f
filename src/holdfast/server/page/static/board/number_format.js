// Formats numbers, short enough for an axis.
import { _, locale } from "../translation.js";
import { count, lasted } from "../view/times.js";

const SHORT = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const PERCENT = new Intl.NumberFormat(locale, { style: "percent" });
const MONEY = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const CENTS = new Intl.NumberFormat(locale, { maximumSignificantDigits: 2 });

export { count };
export const short = (number) => SHORT.format(number);
export const percent = (share) => PERCENT.format(share);

/** In the currency of the configured prices, which has no name. */
export const money = (sum) => (sum > 0 && sum < 0.1 ? CENTS : MONEY).format(sum);

export function seconds(number) {
  if (number === 0) return _("{n} s", { n: count(0) });
  if (number < 0.95) return _("{n} ms", { n: rounded(number * 1000, number < 0.01) });
  if (number < 60) return _("{n} s", { n: rounded(number, number < 10) });
  return _("{n} min", { n: rounded(number / 60, true) });
}

const rounded = (number, tenths) => count(Number(number.toFixed(tenths ? 1 : 0)));

/** Exact for short durations, in minutes or hours for long ones. */
export const lasting = (number) => (number < 59.5 ? seconds(number) : lasted(number));

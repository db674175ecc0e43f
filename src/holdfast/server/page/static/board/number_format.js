// Formats numbers, short enough for an axis.
import { _, locale } from "../translation.js";
import { count, lasted } from "../view/times.js";

const SHORT = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const PERCENT = new Intl.NumberFormat(locale, { style: "percent" });

export { count };
export const short = (number) => SHORT.format(number);
export const percent = (share) => PERCENT.format(share);

const DIGITS = 4; // decimals of a cost: a turn often costs less than a cent
const formats = new Map();

/** Always with the same number of decimals, so that the digits of a column are aligned. */
export function money(sum) {
  const least = 10 ** -DIGITS;
  if (sum > 0 && sum < least) return `< ${currencyFormat(DIGITS).format(least)}`;
  return currencyFormat(DIGITS).format(sum);
}

/** For the axis of a chart. */
export const roundMoney = (sum) => currencyFormat(sum >= 0.1 || sum === 0 ? 2 : DIGITS).format(sum);

/** That of the configured prices (`gateway.currency`). */
export const currency = () => document.documentElement.dataset.currency || "USD";

function currencyFormat(digits) {
  const key = `${currency()} ${digits}`;
  if (!formats.has(key)) {
    formats.set(key, new Intl.NumberFormat(locale, { style: "currency", currency: currency(), minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  return formats.get(key);
}

export function seconds(number) {
  if (number === 0) return _("{n} s", { n: count(0) });
  if (number < 0.95) return _("{n} ms", { n: rounded(number * 1000, number < 0.01) });
  if (number < 60) return _("{n} s", { n: rounded(number, number < 10) });
  return _("{n} min", { n: rounded(number / 60, true) });
}

const rounded = (number, tenths) => count(Number(number.toFixed(tenths ? 1 : 0)));

/** Exact for short durations, in minutes or hours for long ones. */
export const lasting = (number) => (number < 59.5 ? seconds(number) : lasted(number));

// Formats numbers, short enough for an axis.
import { lasted } from "../view/times.js";

const WHOLE = new Intl.NumberFormat();
const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const MONEY = new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const CENTS = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });

export const count = (number) => WHOLE.format(number);
export const short = (number) => SHORT.format(number);
export const percent = (share) => `${Math.round(share * 100)} %`;

/** In the currency of the configured prices, which has no name. */
export const money = (sum) => (sum > 0 && sum < 0.1 ? CENTS : MONEY).format(sum);

export function seconds(number) {
  if (number === 0) return "0 s";
  if (number < 0.95) return `${number < 0.01 ? (number * 1000).toFixed(1) : Math.round(number * 1000)} ms`;
  if (number < 60) return `${number < 10 ? Number(number.toFixed(1)) : Math.round(number)} s`;
  return `${Number((number / 60).toFixed(1))} min`;
}

/** Exact for short durations, in minutes or hours for long ones. */
export const lasting = (number) => (number < 59.5 ? seconds(number) : lasted(number));

/** Singular or plural. */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

// The charts: the values of each, their format, and their summary.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { size } from "../view/times.js";
import { percent, roundMoney, seconds, short } from "./number_format.js";

const sum = (points, of) => points.reduce((total, point) => total + of(point), 0);
const rounded = (number) => Number(number.toFixed(number < 10 ? 1 : 0));
const input = ({ usage }) => usage.input_tokens ?? 0;
const cached = ({ usage }) => usage.cached_tokens ?? 0;
const output = ({ usage }) => usage.output_tokens ?? 0;
const found = ({ hits, misses }) => (hits + misses ? hits / (hits + misses) : null);
const reused = (point) => (input(point) ? Math.min(1, cached(point) / input(point)) : null);
const looked = (figure) => figure || null; // 0: not measured

export const KINDS = [
  {
    title: _("Turns per minute"), unit: _("turns"), shape: "bars", least: 1, show: (figure) => short(rounded(figure)),
    series: [
      { name: _("successful"), tone: "accent", of: ({ turns, failed }, bucket_seconds) => (turns - failed) / (bucket_seconds / 60) },
      { name: _("failed"), tone: "bad", of: ({ failed }, bucket_seconds) => failed / (bucket_seconds / 60) },
    ],
    summary: (points) => {
      const failed = sum(points, (point) => point.failed);
      const turns = _n("{n} turn", "{n} turns", sum(points, (point) => point.turns));
      return failed ? `${turns}, ${_n("{n} failed", "{n} failed", failed)}` : turns;
    },
  },
  durationChart(_("Time to the first token"), "first_token"),
  durationChart(_("Time of a whole turn"), "duration"),
  {
    title: _("Tokens"), unit: _("tokens"), shape: "bars", least: 100, show: short,
    series: [
      { name: _("read"), tone: "accent", of: input },
      { name: _("written"), tone: "second", of: output },
    ],
    summary: (points) => _("{read} read, {written} written", { read: short(sum(points, input)), written: short(sum(points, output)) }),
  },
  {
    title: _("Cost"), unit: _("cost"), shape: "bars", least: 0.01, show: roundMoney,
    series: [{ name: "", tone: "accent", of: ({ cost }) => cost }],
    summary: spent,
  },
  share(_("Agents found in the cache"), _("found"), found, (points) => ({ hits: sum(points, (p) => p.hits), misses: sum(points, (p) => p.misses) })),
  share(_("Prompt found in the vendor's cache"), _("found"), reused, (points) => ({ usage: { input_tokens: sum(points, input), cached_tokens: sum(points, cached) } })),
  worst(_("Memory use"), _("resident"), size, 50e6, (point) => looked(point.memory)),
  worst(_("Event loop lag"), _("lag"), seconds, 0.01, (point) => (point.memory || point.lag ? point.lag : null)),
];

function durationChart(title, name) {
  return {
    title, unit: _("seconds"), shape: "lines", least: 0.1, show: seconds,
    series: [
      { name: _("average"), tone: "accent", of: (point) => point[name]?.mean ?? null },
      { name: _("maximum"), tone: "dashed", of: (point) => point[name]?.worst ?? null },
    ],
    summary: (points) => {
      const measured = points.filter((point) => point[name]);
      if (!measured.length) return _("no data");
      const mean = sum(measured, (point) => point[name].mean) / measured.length;
      return _("{mean} on average, at most {max}", { mean: seconds(mean), max: seconds(Math.max(...measured.map((point) => point[name].worst))) });
    },
  };
}

function share(title, name, of, whole) {
  return {
    title, unit: name, shape: "lines", top: 1, show: percent,
    series: [{ name: "", tone: "accent", of }],
    summary: (points) => {
      const all = points.length ? of(whole(points)) : null;
      return all === null ? _("no data") : _("{share} in total", { share: percent(all) });
    },
  };
}

function worst(title, name, show, floor, of) {
  return {
    title, unit: name, shape: "lines", least: floor, show,
    series: [{ name: "", tone: "accent", of }],
    summary: (points) => {
      const measured = points.map(of).filter((figure) => figure !== null);
      if (!measured.length) return _("no data");
      return _("{now} now, at most {max}", { now: show(measured.at(-1)), max: show(Math.max(...measured)) });
    },
  };
}

function spent(points) {
  if (points.some(({ cost }) => cost === null)) return html`${_("A model has no price:")} <a href="#/settings/prices">${_("set it")}</a>`;
  return _("{sum} in total", { sum: roundMoney(sum(points, ({ cost }) => cost)) });
}

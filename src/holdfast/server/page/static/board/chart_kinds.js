// The charts: the values of each, their format, and their summary.
import { html } from "../vendor/preact-htm.module.js";
import { size } from "../view/times.js";
import { many, money, percent, seconds, short } from "./number_format.js";

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
    title: "Turns a minute", unit: "turns", shape: "bars", least: 1, show: (figure) => short(rounded(figure)),
    series: [
      { name: "ended well", tone: "accent", of: ({ turns, failed }, bucket_seconds) => (turns - failed) / (bucket_seconds / 60) },
      { name: "failed", tone: "bad", of: ({ failed }, bucket_seconds) => failed / (bucket_seconds / 60) },
    ],
    summary: (points) => {
      const failed = sum(points, (point) => point.failed);
      return many(sum(points, (point) => point.turns), "turn") + (failed ? `, ${failed} failed` : "");
    },
  },
  durationChart("Time to the first token", "first_token"),
  durationChart("Time of a whole turn", "duration"),
  {
    title: "Tokens", unit: "tokens", shape: "bars", least: 100, show: short,
    series: [
      { name: "read", tone: "accent", of: input },
      { name: "written", tone: "second", of: output },
    ],
    summary: (points) => `${short(sum(points, input))} read, ${short(sum(points, output))} written`,
  },
  {
    title: "Money", unit: "spent", shape: "bars", least: 0.01, show: money,
    series: [{ name: "", tone: "accent", of: ({ cost }) => cost }],
    summary: spent,
  },
  share("Agents found in the cache", "found", found, (points) => ({ hits: sum(points, (p) => p.hits), misses: sum(points, (p) => p.misses) })),
  share("Prompt found in the vendor's cache", "found", reused, (points) => ({ usage: { input_tokens: sum(points, input), cached_tokens: sum(points, cached) } })),
  worst("Memory", "resident", size, 50e6, (point) => looked(point.memory)),
  worst("Lag of the event loop", "late", seconds, 0.01, (point) => (point.memory || point.lag ? point.lag : null)),
];

function durationChart(title, name) {
  return {
    title, unit: "seconds", shape: "lines", least: 0.1, show: seconds,
    series: [
      { name: "on average", tone: "accent", of: (point) => point[name]?.mean ?? null },
      { name: "at worst", tone: "dashed", of: (point) => point[name]?.worst ?? null },
    ],
    summary: (points) => {
      const measured = points.filter((point) => point[name]);
      if (!measured.length) return "nothing to measure";
      const mean = sum(measured, (point) => point[name].mean) / measured.length;
      return `about ${seconds(mean)}, at worst ${seconds(Math.max(...measured.map((point) => point[name].worst)))}`;
    },
  };
}

function share(title, name, of, whole) {
  return {
    title, unit: name, shape: "lines", top: 1, show: percent,
    series: [{ name: "", tone: "accent", of }],
    summary: (points) => {
      const all = points.length ? of(whole(points)) : null;
      return all === null ? "nothing to measure" : `${percent(all)} in all`;
    },
  };
}

function worst(title, name, show, floor, of) {
  return {
    title, unit: name, shape: "lines", least: floor, show,
    series: [{ name: "", tone: "accent", of }],
    summary: (points) => {
      const measured = points.map(of).filter((figure) => figure !== null);
      if (!measured.length) return "nothing to measure";
      return `${show(measured.at(-1))} now, at most ${show(Math.max(...measured))}`;
    },
  };
}

function spent(points) {
  if (points.some(({ cost }) => cost === null)) return html`A model has no price: <a href="#/settings/prices">set it</a>`;
  return `${money(sum(points, ({ cost }) => cost))} in all`;
}

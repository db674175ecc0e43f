// The inside of a chart: axes, bars or lines, and the mark.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { when } from "../view/times.js";
import { roundAbove } from "./scale.js";

export const WIDTH = 340;
export const HEIGHT = 132;
const LEFT = 50;
const RIGHT = 334;
const TOP = 8;
const BOTTOM = 110;

export function Area({ kind, chart, points, mark }) {
  const rows = kind.series.map(({ tone, of }) => ({ tone, figures: points.map((point) => point && of(point, chart.bucket_seconds)) }));
  const most = kind.shape === "bars" ? tallest(rows, points.length) : Math.max(0, ...rows.flatMap(({ figures }) => figures).filter(known));
  const top = kind.top ?? roundAbove(most, kind.least);
  const wide = (RIGHT - LEFT) / points.length;
  const scale = { x: (index) => LEFT + index * wide, y: (figure) => BOTTOM - (figure / top) * (BOTTOM - TOP), wide };
  return html`
    ${[0, top / 2, top].map((figure) => html`<g key=${figure} class="grid">
      <line x1=${LEFT} x2=${RIGHT} y1=${scale.y(figure)} y2=${scale.y(figure)} />
      <text x=${LEFT - 5} y=${scale.y(figure) + 4} text-anchor="end">${kind.show(figure)}</text>
    </g>`)}
    ${moments(chart, points.length).map(({ index, anchor, text }) => html`<text key=${index} class="moment"
      x=${LEFT + index * wide} y="126" text-anchor=${anchor}>${text}</text>`)}
    ${mark !== null && html`<rect class="mark" x=${scale.x(mark)} y=${TOP} width=${wide} height=${BOTTOM - TOP} />`}
    ${kind.shape === "bars" ? bars(rows, scale) : rows.map((row) => line(row, scale))}
  `;
}

/** The index of the time bucket at this share of the width. */
export function indexAt(share, number) {
  const scale = Math.floor(((share * WIDTH - LEFT) / (RIGHT - LEFT)) * number);
  return Math.max(0, Math.min(number - 1, scale));
}

const known = (figure) => figure !== null;

function tallest(rows, number) {
  let most = 0;
  for (let index = 0; index < number; index += 1) {
    most = Math.max(most, rows.reduce((sum, { figures }) => sum + (figures[index] ?? 0), 0));
  }
  return most;
}

/** Stacked bars: one path for each row, so that a day is not a hundred nodes. */
function bars(rows, { x, y, wide }) {
  const heights = rows[0].figures.map(() => 0);
  const gap = Math.min(1, wide * 0.2);
  return rows.map(({ tone, figures }) => {
    const drawn = figures.map((figure, index) => {
      if (!figure) return "";
      const from = heights[index];
      heights[index] += figure;
      return `M${x(index) + gap} ${y(from)}V${y(from + figure)}h${wide - 2 * gap}V${y(from)}z`;
    });
    return html`<path key=${tone} class=${`bars ${tone}`} d=${drawn.join("")} />`;
  });
}

/** Interrupted where there is no value; a single value is a dot. */
function line({ tone, figures }, { x, y, wide }) {
  const drawn = figures.map((figure, index) => {
    if (figure === null) return "";
    const before = index > 0 && figures[index - 1] !== null;
    return `${before ? "L" : "M"}${(x(index) + wide / 2).toFixed(1)} ${y(figure).toFixed(1)}${before ? "" : "h0.01"}`;
  });
  return html`<path key=${tone} class=${`line ${tone}`} d=${drawn.join("")} />`;
}

/** The beginning, the middle, and now. */
function moments({ since, bucket_seconds }, number) {
  const at = (index) => when(since + index * bucket_seconds);
  const middle = Math.floor(number / 2);
  return [
    { index: 0, anchor: "start", text: at(0) },
    { index: middle, anchor: "middle", text: at(middle) },
    { index: number, anchor: "end", text: _("now") },
  ];
}

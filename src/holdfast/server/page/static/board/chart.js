// A small chart: a summary in words, axes, a mark that the pointer and the
// arrow keys move over time, and the same as a table.
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { when } from "../view/times.js";
import { Area, HEIGHT, WIDTH, indexAt } from "./area.js";
import { stretches } from "./scale.js";

/**
 * `kind`: {title, unit, shape: "bars" | "lines", show, least, series: [{name, tone, of}], summary}.
 * `of(point, bucket_seconds)` is a number, or null where nothing was measured; `summary(points)` sums
 * them all up in a few words.
 */
export function Chart({ kind, chart }) {
  const [index, setIndex] = useState(null);
  const points = stretches(chart);
  const last = points.length - 1;
  const at = index === null ? null : Math.min(index, last);
  const say = (index) => sentence(kind, chart, points, index);
  const onKey = (event) => {
    const to = { ArrowLeft: (at ?? last) - 1, ArrowRight: (at ?? last) + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    setIndex(Math.max(0, Math.min(last, to)));
  };
  const onPoint = (event) => setIndex(indexUnder(event, points.length));
  return html`<figure class="chart">
    <figcaption>
      <h3>${kind.title}</h3>
      <p class=${at === null ? "readout" : "readout marked"}>${at === null ? kind.summary(points.filter(Boolean)) : say(at)}</p>
    </figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="slider" tabindex="0" aria-label=${_("{chart}, point in time", { chart: kind.title })} aria-orientation="horizontal"
      aria-valuemin="0" aria-valuemax=${last} aria-valuenow=${at ?? last} aria-valuetext=${say(at ?? last)}
      onKeyDown=${onKey} onFocus=${() => setIndex(at ?? last)} onBlur=${() => setIndex(null)}
      onPointerMove=${onPoint} onPointerDown=${onPoint} onPointerLeave=${() => setIndex(null)}>
      <${Area} kind=${kind} chart=${chart} points=${points} mark=${at} />
    </svg>
    <${Legend} kind=${kind} />
    <${Table} kind=${kind} chart=${chart} points=${points} />
  </figure>`;
}

function indexUnder(event, number) {
  const { left, width } = event.currentTarget.getBoundingClientRect();
  return indexAt((event.clientX - left) / width, number);
}

function sentence(kind, { since, bucket_seconds }, points, index) {
  const point = points[index];
  const moment = when(since + index * bucket_seconds);
  if (!point) return _("{time}: the gateway was not running", { time: moment });
  const figures = kind.series.map(({ name, of }) => [name, of(point, bucket_seconds)]).filter(([, figure]) => figure !== null);
  if (!figures.length) return _("{time}: nothing", { time: moment });
  return `${moment}: ${figures.map(([name, figure]) => `${kind.show(figure)}${name ? ` ${name}` : ""}`).join(", ")}`;
}

function Legend({ kind }) {
  if (kind.series.length < 2) return null;
  return html`<p class="legend" aria-hidden="true">
    ${kind.series.map(({ name, tone }) => html`<span key=${name} class=${tone}>${name}</span>`)}
  </p>`;
}

/** The newest first; drawn only when it is opened. */
function Table({ kind, chart, points }) {
  const [open, setOpen] = useState(false);
  return html`<details class="as-table" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${_("As a table")}<span class="visually-hidden">: ${kind.title}</span></summary>
    ${open && html`<div class="table" tabindex="0" role="region" aria-label=${_("{chart}, as a table", { chart: kind.title })}><table>
      <thead><tr><th scope="col">${_("from")}</th>${kind.series.map(({ name }) => html`<th scope="col" class="to-right">${name || kind.unit}</th>`)}</tr></thead>
      <tbody>${points.map((point, index) => point && html`<tr key=${index}>
        <th scope="row">${when(chart.since + index * chart.bucket_seconds)}</th>
        ${kind.series.map(({ of }) => html`<td class="to-right">${shown(kind, of(point, chart.bucket_seconds))}</td>`)}
      </tr>`).reverse()}</tbody>
    </table></div>`}
  </details>`;
}

const shown = (kind, figure) => (figure === null ? "–" : kind.show(figure));

// The waterfall: every span of a turn as a bar over one time axis; arrow keys move between the rows.
import { Observable, useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { useNarrow } from "../view/narrow.js";
import { axisOf, between } from "./axis.js";
import { lasting } from "./number_format.js";
import { LineRows } from "./line_rows.js";
import { Sentence } from "./span_text.js";

const CHUNK = 60; // rows that are drawn together
const WORKS = ["model", "tool", "compaction"];

/** The row under the pointer: its readout is drawn without drawing the rows again. */
class Pointed extends Observable {
  line = null;

  at(line) {
    if (line === this.line) return;
    this.line = line;
    this.changed();
  }
}

export function Waterfall({ turn, lines, now, session }) {
  const list = useRef(null);
  const pointed = useMemo(() => new Pointed(), []);
  const [opened, setOpened] = useState(null);
  const [stop, setStop] = useState(null); // the row that is in the tab order
  const narrow = useNarrow();
  const axis = useMemo(() => axisFor(lines, turn.started_at, now, narrow ? 26 : 13), [lines, now, narrow]);
  const known = lines.some(({ key }) => key === stop) ? stop : lines[0]?.key;
  const chunks = useGrowing(useMemo(() => chunked(lines), [lines]));
  const lineAt = ({ target }) => lines.find(({ key }) => key === target.closest("[data-key]")?.dataset.key) ?? null;
  const onClick = (event) => {
    const line = event.target.closest("button[data-key]") && lineAt(event);
    if (line) setOpened(opened === line.key ? null : line.key);
  };
  const onFocus = (event) => {
    const line = lineAt(event);
    pointed.at(line);
    if (line) setStop(line.key);
  };
  return html`<div class="waterfall">
    <header>
      <${Readout} pointed=${pointed} begin=${turn.started_at} now=${now} />
      <${Scale} axis=${axis} />
    </header>
    <div class="span-list" onClick=${onClick} onPointerOver=${(event) => pointed.at(lineAt(event))} onPointerLeave=${() => pointed.at(null)}
      onfocusin=${onFocus} onfocusout=${() => pointed.at(null)} onKeyDown=${(event) => walk(event, list.current)}>
      <div class="bands" aria-hidden="true">
        ${axis.gaps.map(([from, to]) => html`<i key=${from} style=${between(axis, from, to)} title=${_("{time} in which nothing worked", { time: lasting(to - from) })}></i>`)}
      </div>
      <ol ref=${list} aria-label=${_("What the turn did, in order of start")}>
        ${chunks.map((chunk, index) => html`<${LineRows} key=${index} chunk=${chunk} lines=${lines} axis=${axis} now=${now} begin=${turn.started_at} session=${session}
          opened=${among(chunk, opened)} stop=${among(chunk, known)} />`)}
      </ol>
    </div>
  </div>`;
}

const among = (chunk, key) => (chunk.some((line) => line.key === key) ? key : null);

function chunked(lines) {
  const found = [];
  for (let from = 0; from < lines.length; from += CHUNK) found.push(lines.slice(from, from + CHUNK));
  return found;
}

/** One chunk in each frame: hundreds of rows at once would block the page. */
function useGrowing(chunks) {
  const [drawn, setDrawn] = useState(1);
  useEffect(() => {
    if (drawn >= chunks.length) return undefined;
    const frame = requestAnimationFrame(() => setDrawn(drawn + 1));
    return () => cancelAnimationFrame(frame);
  }, [drawn, chunks.length]);
  return chunks.slice(0, drawn);
}

function axisFor(lines, origin, now, apart) {
  const end = ({ to }) => to ?? now;
  const stretches = (filter) => lines.filter(filter).map((line) => [line.from, end(line)]);
  return axisOf({
    origin,
    apart,
    from: Math.min(...lines.map(({ from }) => from)),
    to: Math.max(...lines.map(end)),
    busy: stretches(({ kind }) => WORKS.includes(kind)),
    absent: stretches(({ kind }) => kind === "downtime"),
  });
}

function Readout({ pointed, begin, now }) {
  useObservable(pointed);
  const { line } = pointed;
  return html`<p class="readout" aria-hidden="true">
    ${line ? html`<${Sentence} line=${line} begin=${begin} now=${now} />` : _("Point at a row, or use the arrow keys, to see its numbers.")}
  </p>`;
}

/** Seconds since the turn began; waiting before that is negative. */
function Scale({ axis }) {
  return html`<div class="scale" aria-hidden="true"><span></span><span class="track">
    ${axis.marks.map(({ at, seconds: mark }) => html`<i key=${mark} style=${{ left: `${at.toFixed(3)}%` }}>${clock(mark)}</i>`)}
  </span><span></span></div>`;
}

function clock(since) {
  const figure = lasting(Math.abs(Number(since.toFixed(3))));
  return since < 0 ? `−${figure}` : figure;
}

function walk(event, list) {
  const all = [...list.querySelectorAll("button[data-key]")];
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  all[Math.max(0, Math.min(all.length - 1, to))].focus();
}

// The waterfall: every line of a turn as a bar over one time axis, walked by the arrow keys.
import { html, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { axisOf } from "./axis.js";
import { lasting } from "./figures.js";
import { Details } from "./span_details.js";
import { Sentence, spoken } from "./span_words.js";

const NARROW = matchMedia("(max-width: 760px)");
const WORKS = ["model", "tool", "compaction"];

export function Waterfall({ turn, lines, now, session }) {
  const list = useRef(null);
  const [shown, setShown] = useState(null); // the line that is pointed at
  const [opened, setOpened] = useState(null);
  const [stop, setStop] = useState(null); // where the tabulator comes in
  const axis = axisFor(lines, turn.started_at, now);
  const known = lines.some(({ key }) => key === stop) ? stop : lines[0]?.key;
  const told = lines.find(({ key }) => key === shown) ?? lines.find(({ key }) => key === opened);
  return html`<div class="waterfall">
    <header>
      <p class="told" aria-hidden="true">${told ? html`<${Sentence} line=${told} begin=${turn.started_at} now=${now} />` : "Point at a line, or walk them with the arrow keys, for its figures."}</p>
      <${Scale} axis=${axis} />
    </header>
    <div class="drawn">
      <div class="bands" aria-hidden="true">
        ${axis.gaps.map(([from, to]) => html`<i key=${from} style=${between(axis, from, to)} title=${`${lasting(to - from)} in which nothing worked`}></i>`)}
      </div>
      <ol ref=${list} aria-label="What the turn did, in the order in which it began" onKeyDown=${(event) => walk(event, list.current)} onPointerLeave=${() => setShown(null)}>
        ${lines.map((line) => html`<li key=${line.key} class=${`line ${line.tone}`}>
          <button type="button" tabindex=${line.key === known ? 0 : -1} aria-expanded=${String(opened === line.key)}
            onClick=${() => setOpened(opened === line.key ? null : line.key)}
            onPointerEnter=${() => setShown(line.key)} onFocus=${() => setShown(line.key) ?? setStop(line.key)} onBlur=${() => setShown(null)}>
            <span class="what"><${Icon} name=${line.icon} /><span class="name">${line.name}</span> <span class="short">${line.about}</span></span>
            <span class="track"><i class=${line.to === null ? "bar growing" : "bar"} style=${between(axis, line.from, line.to ?? now)}></i></span>
            <span class="took">${took(line, now)}</span>
            <span class="offstage">: ${spoken(line, turn.started_at, now)}</span>
          </button>
          ${opened === line.key && html`<${Details} line=${line} lines=${lines} session=${session} />`}
        </li>`)}
      </ol>
    </div>
  </div>`;
}

function axisFor(lines, origin, now) {
  const end = ({ to }) => to ?? now;
  const stretches = (wanted) => lines.filter(wanted).map((line) => [line.from, end(line)]);
  return axisOf({
    origin,
    apart: NARROW.matches ? 26 : 13,
    from: Math.min(...lines.map(({ from }) => from)),
    to: Math.max(...lines.map(end)),
    busy: stretches(({ kind }) => WORKS.includes(kind)),
    absent: stretches(({ kind }) => kind === "away"),
  });
}

function between(axis, from, to) {
  const left = axis.place(from);
  return { left: `${left.toFixed(3)}%`, width: `${(axis.place(to) - left).toFixed(3)}%` };
}

/** Seconds since the turn began; what waited before that stands before the nought. */
function Scale({ axis }) {
  return html`<div class="scale" aria-hidden="true"><span></span><span class="track">
    ${axis.marks.map(({ at, seconds: mark }) => html`<i key=${mark} style=${{ left: `${at.toFixed(3)}%` }}>${clock(mark)}</i>`)}
  </span><span></span></div>`;
}

function clock(since) {
  const figure = lasting(Math.abs(Number(since.toFixed(3)))).replace(/ 0 (s|min)$/, "");
  return since < 0 ? `−${figure}` : figure;
}

function took({ from, to, kind }, now) {
  if (["steer", "note"].includes(kind)) return "";
  return lasting(Math.max(0, (to ?? now) - from));
}

function walk(event, list) {
  const all = [...list.querySelectorAll(":scope > li > button")];
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  all[Math.max(0, Math.min(all.length - 1, to))].focus();
}

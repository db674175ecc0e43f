// The scrolled list of log lines: only the visible ones are drawn, and the end is followed
// until the user scrolls up.
import { _, locale } from "../translation.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { memo } from "../view/memo.js";
import { useWindow } from "./virtual_list.js";

const NEAR = 30; // pixels from the end that count as the end
const CLOCK = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric" });

export function LogLines({ feed, chosen, onChoose }) {
  const { lines } = feed;
  const scroller = useRef(null);
  const box = useRef(null);
  const [following, setFollowing] = useState(true);
  const { first, last, above, below, height } = useWindow(box, lines.length, () => null);
  useStaying(scroller, feed, following, height);
  const onScroll = ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
    setFollowing(scrollHeight - scrollTop - clientHeight < NEAR);
    if (scrollTop < 4 * clientHeight) feed.older();
  };
  const toEnd = () => {
    scroller.current.scrollTop = scroller.current.scrollHeight;
    setFollowing(true);
  };
  return html`<div class="log-box">
    <div class="scroller log-lines" ref=${scroller} tabindex="0" role="region" aria-label=${_("Lines of the log")} onScroll=${onScroll} onKeyDown=${walk}>
      <div ref=${box} role="table" aria-label=${_("Lines")} aria-rowcount=${lines.length}>
        <div class="spacer" style=${{ height: `${above}px` }}></div>
        ${lines.slice(first, last).map((line) => html`<${Entry} key=${line.gap ? `gap ${line.number}` : line.number} line=${line} chosen=${line.number === chosen && !line.gap} onChoose=${onChoose} />`)}
        <div class="spacer" style=${{ height: `${below}px` }}></div>
      </div>
      ${feed.loaded && !lines.length && html`<p class="quiet-text">${_("No line of this process matches. Widen the filters above; the log file also has the lines of earlier processes.")}</p>`}
    </div>
    ${!following && lines.length > 0 && html`<button type="button" class="to-end" onClick=${toEnd}><${Icon} name="down" /> ${_("Newest")}</button>`}
  </div>`;
}

/** At the end the view follows the end; elsewhere the visible lines keep their position. */
function useStaying(scroller, feed, following, height) {
  const known = useRef({ before: 0, gone: 0 });
  useLayoutEffect(() => {
    const { before, gone } = feed;
    const moved = before - known.current.before - (gone - known.current.gone);
    known.current = { before, gone };
    const node = scroller.current;
    if (following) node.scrollTop = node.scrollHeight;
    else if (moved) node.scrollTop += moved * height;
  }, [feed.lines, following, height]);
}

const Entry = memo(function Entry({ line, chosen, onChoose }) {
  if (line.gap) return html`<div class="log-line gap" role="row"><span role="cell">${_("Some lines here are no longer in memory; the log file has them.")}</span></div>`;
  const date = new Date(line.time);
  return html`<div class=${`log-line ${line.level}${chosen ? " chosen" : ""}`} role="row">
    <time role="cell" datetime=${line.time} title=${`${DAY.format(date)}, ${CLOCK.format(date)}`}>${CLOCK.format(date)}</time>
    <span role="cell" class="level">${line.level}</span>
    <span role="cell" class="message"><button type="button" aria-expanded=${String(chosen)} onClick=${() => onChoose(chosen ? null : line)}>${line.message.split("\n", 1)[0]}</button>${line.exception && html` <span class="raised">${_("exception")}</span>`}</span>
  </div>`;
});

/** Arrow keys move from line to line. */
function walk(event) {
  const by = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const to = by && event.target.closest(".log-line")?.[by]?.querySelector("button");
  if (!to) return;
  event.preventDefault();
  to.focus();
}

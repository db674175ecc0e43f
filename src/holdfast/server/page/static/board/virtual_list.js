// Virtual scrolling: rows of equal height, of which only those near the visible part are drawn.
import { useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";

const AROUND = 12; // extra rows that are drawn above and below the visible ones
const STEP = 6; // rows to scroll before the list is drawn again
const GUESS = 60; // assumed height of a row in pixels before one was measured

/**
 * `box`: the element with the rows, in a `.scroller`. Returns the `first` and the `last` row (exclusive)
 * and the pixels `above` and `below` them. `onEnd` is called near the end.
 */
export function useWindow(box, number, onEnd) {
  const [range, setRange] = useState({ first: 0, last: 40 });
  const height = useRef(GUESS);
  const measure = () => {
    if (!box.current) return;
    const row = box.current.querySelector("[role=row]");
    if (row?.offsetHeight) height.current = row.offsetHeight;
    const seen = inView(box.current, height.current);
    const first = Math.max(0, Math.floor((seen.first - AROUND) / STEP) * STEP);
    const last = Math.ceil((seen.last + AROUND) / STEP) * STEP;
    setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
    if (seen.last > number - 5 * AROUND) onEnd();
  };
  useLayoutEffect(() => {
    const scroller = box.current.closest(".scroller");
    measure();
    scroller.addEventListener("scroll", measure, { passive: true });
    const grown = new ResizeObserver(measure);
    grown.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", measure);
      grown.disconnect();
    };
  }, [number]);
  const first = Math.min(range.first, Math.max(0, number - 1));
  const last = Math.min(range.last, number);
  return { first, last, above: first * height.current, below: (number - last) * height.current, height: height.current };
}

function inView(box, height) {
  const scroller = box.closest(".scroller").getBoundingClientRect();
  const above = scroller.top - box.getBoundingClientRect().top;
  return { first: Math.floor(above / height), last: Math.ceil((above + scroller.height) / height) };
}

/** The visible rows keep their position when rows move to the top of the list, or leave it. At the very
 * top they move, because new rows should be seen there. */
export function useStableRow(box, rows, height) {
  const shown = useRef(rows);
  useLayoutEffect(() => {
    const before = shown.current;
    shown.current = rows;
    const index = inView(box.current, height).first;
    const read = before !== rows && index > 0 ? before[index] : null;
    if (!read) return;
    const now = rows.findIndex(({ id }) => id === read.id);
    if (now >= 0) box.current.closest(".scroller").scrollTop += (now - index) * height;
  }, [rows]);
}

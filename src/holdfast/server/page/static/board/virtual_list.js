// The part of a long list that is in view: rows of one height, of which only those near the eye are drawn.
import { useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";

const AROUND = 12; // rows that are drawn beyond what is seen, above and below
const STEP = 6; // rows that pass before anything is drawn anew
const GUESS = 60; // pixels that a row is taken for before one was seen

/**
 * `box`: what holds the rows, in a `.scroller`. Gives the `first` and the `last` to draw (not included)
 * and the pixels `above` and `below` them. `onEnd` is called when the end comes near.
 */
export function useWindow(box, number, onEnd) {
  const [range, setRange] = useState({ first: 0, last: 40 });
  const height = useRef(GUESS);
  const look = () => {
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
    look();
    scroller.addEventListener("scroll", look, { passive: true });
    const grown = new ResizeObserver(look);
    grown.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", look);
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

/** What one reads stays where it is when rows move to the top of the list, or leave it. At the very
 * top nothing is kept: who looks there wants to see what comes. */
export function useKeptRow(box, rows, height) {
  const shown = useRef(rows);
  useLayoutEffect(() => {
    const before = shown.current;
    shown.current = rows;
    const place = inView(box.current, height).first;
    const read = before !== rows && place > 0 ? before[place] : null;
    if (!read) return;
    const now = rows.findIndex(({ id }) => id === read.id);
    if (now >= 0) box.current.closest(".scroller").scrollTop += (now - place) * height;
  }, [rows]);
}

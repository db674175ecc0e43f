// A value of the API that is loaded while its view is visible.
import { useEffect, useRef, useState } from "../vendor/preact-htm.module.js";

/**
 * Requests at once, whenever `source` has something newer (its `last` changed), and every
 * `every` seconds while the page is visible. An answer is shown unless that of a later
 * request is, so `refresh` returns once something at least as new as its request is shown.
 */
export function useFetched(source, ask, every, depends = []) {
  const [state, setState] = useState({ value: null, problem: "" });
  const asked = useRef(0); // the number of the last request
  const shown = useRef(0); // the number of the request whose answer is shown
  const refresh = async () => {
    const mine = ++asked.current;
    const show = (change) => {
      if (mine < shown.current) return;
      shown.current = mine;
      setState(change);
    };
    try {
      const value = await ask();
      show({ value, problem: "" });
    } catch (failure) {
      show((before) => ({ ...before, problem: failure.message }));
    }
  };
  useEffect(() => {
    refresh();
    let last = source.last;
    const ends = source.subscribe(() => {
      if (source.last !== last) refresh();
      last = source.last;
    });
    const timer = every && setInterval(() => document.hidden || refresh(), every * 1000);
    return () => {
      shown.current = asked.current + 1; // what was requested so far is not shown any more
      ends();
      clearInterval(timer);
    };
  }, [source, ...depends]);
  return { ...state, refresh };
}

// A value of the API that is loaded while its view is visible.
import { useEffect, useRef, useState } from "../vendor/preact-htm.module.js";

/**
 * Requests at once, whenever `source` has something newer (its `last` changed), and every
 * `every` seconds while the page is visible. The answer to an older request is
 * ignored.
 */
export function useFetched(source, ask, every, depends = []) {
  const [state, setState] = useState({ value: null, problem: "" });
  const turn = useRef(0);
  const refresh = async () => {
    const mine = ++turn.current;
    try {
      const value = await ask();
      if (mine === turn.current) setState({ value, problem: "" });
    } catch (failure) {
      if (mine === turn.current) setState((before) => ({ ...before, problem: failure.message }));
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
      turn.current += 1;
      ends();
      clearInterval(timer);
    };
  }, [source, ...depends]);
  return { ...state, refresh };
}

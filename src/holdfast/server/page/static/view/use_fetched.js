// Something of a session, or of the gateway, that is asked for while it is looked at.
import { useEffect, useRef, useState } from "../vendor/preact-htm.module.js";

/**
 * Asks at once, whenever `told` says that it has something newer (its `last` is another), and every
 * `every` seconds while the page is seen. An answer that comes after a newer one was asked for is
 * not shown.
 */
export function useFetched(told, ask, every, depends = []) {
  const [state, setState] = useState({ value: null, problem: "" });
  const turn = useRef(0);
  const look = async () => {
    const mine = ++turn.current;
    try {
      const value = await ask();
      if (mine === turn.current) setState({ value, problem: "" });
    } catch (failure) {
      if (mine === turn.current) setState((before) => ({ ...before, problem: failure.message }));
    }
  };
  useEffect(() => {
    look();
    let last = told.last;
    const ends = told.subscribe(() => {
      if (told.last !== last) look();
      last = told.last;
    });
    const timer = every && setInterval(() => document.hidden || look(), every * 1000);
    return () => {
      turn.current += 1;
      ends();
      clearInterval(timer);
    };
  }, [told, ...depends]);
  return { ...state, look };
}

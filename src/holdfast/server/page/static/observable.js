// Observable objects, and the hook that draws a view again when one changes.
import { useLayoutEffect, useState } from "./vendor/preact-htm.module.js";

export class Observable {
  #listeners = new Set();

  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  changed() {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Draws the calling view again whenever one of `things` changes; null is ignored. */
export function useObservable(...things) {
  const [, draw] = useState(0);
  useLayoutEffect(() => {
    const watched = things.filter((thing) => thing !== null);
    if (!watched.length) return undefined;
    const again = () => draw((count) => count + 1);
    const ends = watched.map((thing) => thing.subscribe(again));
    again(); // it may have changed between the drawing and this
    return () => ends.forEach((end) => end());
  }, things);
}

// Whether the page is as narrow as a phone, updated on resize and rotation.
import { useEffect, useState } from "../vendor/preact-htm.module.js";

const NARROW = matchMedia("(max-width: 760px)");

export function useNarrow() {
  const [narrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return narrow;
}

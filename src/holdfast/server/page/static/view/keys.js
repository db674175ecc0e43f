// Keys that work anywhere on the page.
import { useEffect } from "../vendor/preact-htm.module.js";

/** Ctrl/Cmd+K searches, Alt+N starts a chat, Esc closes what is open or stops the turn. */
export function useKeys(page) {
  useEffect(() => {
    const onKey = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        page.toChats();
        page.set({ drawer: true });
        // At once, or the next letter would go elsewhere; later only if the drawer of a phone must open first.
        search();
        if (!document.activeElement?.closest(".search")) requestAnimationFrame(search);
      } else if (event.altKey && event.code === "KeyN") {
        event.preventDefault();
        page.goTo(null);
      } else if (event.key === "Escape" && !event.defaultPrevented) {
        escape(page);
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [page]);
}

function search() {
  document.querySelector(".search input")?.select();
}

function escape(page) {
  if (page.dialog) return; // the browser closes it
  const searching = document.activeElement?.closest(".search");
  if (searching || page.chats.query) {
    page.chats.search("");
    page.set({ drawer: false });
    document.querySelector(".composer textarea")?.focus();
  } else if (page.drawer) page.set({ drawer: false });
  else if (page.panel) page.set({ panel: null });
  else if (page.conversation?.running) page.stop();
}

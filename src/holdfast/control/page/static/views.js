// The views of the dashboard, in the order in which they are listed: a module in board/ that gives
// a `View`, and a line here. Its name is its address, and it is loaded when it is first opened.
export const VIEWS = {
  overview: { label: "Overview", icon: "gauge", load: () => import("./board/overview.js") },
  platforms: { label: "Platforms", icon: "plug", load: () => import("./board/platforms.js") },
  restarts: { label: "Restarts", icon: "again", load: () => import("./board/restarts.js") },
};

export const FIRST = "overview";

/** The view that an address names; null: it is one of a chat. */
export function viewIn(hash) {
  const name = hash.split("/")[1] ?? "";
  return Object.hasOwn(VIEWS, name) ? name : null;
}

// The views of the dashboard, in the order of the navigation: a module in board/ that exports
// `View`, and a line here. Its name is its address, and it is loaded when it is first opened.
// `waiting` returns how many items wait for a decision, for the badge in the navigation.
import { _ } from "./translation.js";

export const VIEWS = {
  overview: { label: _("Overview"), icon: "gauge", load: () => import("./board/overview.js") },
  sessions: { label: _("Sessions"), icon: "bubbles", load: () => import("./board/sessions.js") },
  turns: { label: _("Turns"), icon: "bars", load: () => import("./board/turns.js") },
  approvals: { label: _("Approvals"), icon: "shield", waiting: ({ pending }) => pending.number, load: () => import("./board/approvals.js") },
  processes: { label: _("Processes"), icon: "pulse", load: () => import("./board/processes.js") },
  platforms: { label: _("Platforms"), icon: "plug", load: () => import("./board/platforms.js") },
  outbox: { label: _("Outbox"), icon: "outbox", load: () => import("./board/outbox.js") },
  jobs: { label: _("Jobs"), icon: "clock", load: () => import("./board/jobs.js") },
  logs: { label: _("Logs"), icon: "list", load: () => import("./board/logs.js") },
  audit: { label: _("Audit"), icon: "book", load: () => import("./board/audit.js") },
  settings: { label: _("Settings"), icon: "sliders", load: () => import("./board/settings.js") },
  restarts: { label: _("Restarts"), icon: "again", load: () => import("./board/restarts.js") },
};

export const FIRST = "overview";

/**
 * Parses an address. `view` null: a chat. `part`: the id of the opened item of the
 * view; null: the whole view, or its query (`board/url_query.js`), which has a `=` in it.
 */
export function parseAddress(hash) {
  const [, name = "", part = ""] = hash.split("/");
  const view = Object.hasOwn(VIEWS, name) ? name : null;
  return { view, part: view && part && !part.includes("=") ? decoded(part) : null };
}

/** A typed address may be encoded wrongly. */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

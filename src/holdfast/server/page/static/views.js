// The views of the dashboard, in the order in which they are listed: a module in board/ that gives
// a `View`, and a line here. Its name is its address, and it is loaded when it is first opened.
// `waiting` asks how much of it waits for a person, for all to see who look at any view.
import { api } from "./api.js";

export const VIEWS = {
  overview: { label: "Overview", icon: "gauge", load: () => import("./board/overview.js") },
  sessions: { label: "Sessions", icon: "bubbles", load: () => import("./board/sessions.js") },
  turns: { label: "Turns", icon: "bars", load: () => import("./board/turns.js") },
  approvals: { label: "Approvals", icon: "shield", waiting: countApprovals, load: () => import("./board/approvals.js") },
  processes: { label: "Processes", icon: "pulse", load: () => import("./board/processes.js") },
  platforms: { label: "Platforms", icon: "plug", load: () => import("./board/platforms.js") },
  outbox: { label: "Outbox", icon: "outbox", load: () => import("./board/outbox.js") },
  jobs: { label: "Jobs", icon: "clock", load: () => import("./board/jobs.js") },
  logs: { label: "Logs", icon: "list", load: () => import("./board/logs.js") },
  audit: { label: "Audit", icon: "book", load: () => import("./board/audit.js") },
  settings: { label: "Settings", icon: "sliders", load: () => import("./board/settings.js") },
  restarts: { label: "Restarts", icon: "again", load: () => import("./board/restarts.js") },
};

async function countApprovals() {
  return (await api.approvals({ pending: true, limit: 100 })).length;
}

export const FIRST = "overview";

/**
 * What an address names. `view` null: it is one of a chat. `part`: what of the view is opened, by its
 * id; null: all of it, or what the address asks of that (`board/url_query.js`), which has a `=` in it.
 */
export function placeIn(hash) {
  const [, name = "", part = ""] = hash.split("/");
  const view = Object.hasOwn(VIEWS, name) ? name : null;
  return { view, part: view && part && !part.includes("=") ? decoded(part) : null };
}

/** What somebody has typed may be no encoding at all. */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// What everybody should know who looks at the page: the gateway restarts, or is away, or is not let in somewhere.
import { html } from "../vendor/preact-htm.module.js";

const KEPT = "what you write is kept and sent when the gateway is back.";

export function Banner({ page }) {
  const text = told(page);
  return text && html`<p class="banner" role="alert">${text}</p>`;
}

function told({ connected, status }) {
  const going = { restarting: "Restarting", stopping: "Shutting down" }[status?.state];
  // What is lost while it goes is away for the same reason.
  if (!connected) return `${going ?? "Reconnecting"}… ${KEPT}`;
  if (going) return status.turns.running ? `${going}: waiting for ${turns(status.turns.running)}` : `${going}…`;
  if (status?.pending_restart) return "The gateway restarts as soon as nothing runs.";
  return status?.blocked_accounts?.join(" ") ?? "";
}

const turns = (number) => (number === 1 ? "1 turn" : `${number} turns`);

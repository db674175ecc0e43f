// The banner: the gateway restarts, is unreachable, or an account is refused.
import { html } from "../vendor/preact-htm.module.js";

const KEPT_NOTICE = "what you write is kept and sent when the gateway is back.";

export function Banner({ page }) {
  const text = bannerText(page);
  return text && html`<p class="banner" role="alert">${text}</p>`;
}

function bannerText({ connected, status }) {
  const going = { restarting: "Restarting", stopping: "Shutting down" }[status?.state];
  // A connection that is lost during a stop has the same reason.
  if (!connected) return `${going ?? "Reconnecting"}… ${KEPT_NOTICE}`;
  if (going) return status.turns.running ? `${going}: waiting for ${turns(status.turns.running)}` : `${going}…`;
  if (status?.pending_restart) return "The gateway restarts as soon as nothing runs.";
  return status?.blocked_accounts?.join(" ") ?? "";
}

const turns = (number) => (number === 1 ? "1 turn" : `${number} turns`);

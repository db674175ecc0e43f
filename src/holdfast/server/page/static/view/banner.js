// The banner: the gateway restarts, is unreachable, or an account is refused.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";

const KEPT_NOTICE = _("What you write is saved here and sent when the gateway is back.");
const STOPS = {
  restarting: {
    label: _("Restarting…"),
    waiting: (turns) => _n("Restarting: waiting for {n} turn", "Restarting: waiting for {n} turns", turns),
  },
  stopping: {
    label: _("Shutting down…"),
    waiting: (turns) => _n("Shutting down: waiting for {n} turn", "Shutting down: waiting for {n} turns", turns),
  },
};

export function Banner({ page }) {
  const text = bannerText(page);
  return text && html`<p class="banner" role="alert">${text}</p>`;
}

function bannerText({ connected, status }) {
  const stop = STOPS[status?.state];
  // A connection that is lost during a stop has the same reason.
  if (!connected) return `${stop?.label ?? _("Reconnecting…")} ${KEPT_NOTICE}`;
  if (stop) return status.turns.running ? stop.waiting(status.turns.running) : stop.label;
  if (status?.pending_restart) return _("The gateway restarts as soon as no turn runs.");
  return status?.blocked_accounts?.join(" ") ?? "";
}

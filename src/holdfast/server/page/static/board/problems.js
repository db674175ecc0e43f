// The problems of the gateway, with remedies.
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { VIEWS } from "../views.js";

const LEVELS = { problem: _("Problem"), warning: _("Warning") };
// The view with actions or details for each problem.
const PLACES = {
  orphaned_messages: "restarts", crash_loop: "restarts", config_invalid: "settings", config_pending_restart: "settings",
  account_blocked: "platforms", account_disconnected: "platforms", outbox_stuck: "outbox", account_removed: "outbox",
  delivery_failed: "outbox", job_failed: "jobs",
};

export function Problems({ problems }) {
  if (!problems.length) return html`<p class="no-problems"><${Icon} name="check" /> ${_("No problems.")}</p>`;
  return html`<ul class="problem-list">
    ${problems.map(({ level, code, what, remedy }) => html`<li key=${`${code} ${what}`} class=${level}>
      <${Icon} name="shield" />
      <div>
        <p><strong>${LEVELS[level] ?? level}:</strong> ${what}</p>
        ${remedy && html`<p class="remedy">${withCode(remedy)}</p>`}
        ${PLACES[code] && html`<p class="remedy"><a href=${`#/${PLACES[code]}`}>${VIEWS[PLACES[code]].label}</a></p>`}
      </div>
    </li>`)}
  </ul>`;
}

/** Text between backticks becomes code. */
export const withCode = (text) => text.split("`").map((piece, index) => (index % 2 ? html`<code>${piece}</code>` : piece));

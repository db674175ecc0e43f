// What is wrong with the gateway, and what to do about it.
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";

const LEVELS = { problem: "Problem", warning: "Warning" };
// The view in which something can be done about it, or more is known.
const PLACES = {
  orphaned_messages: "restarts", crash_loop: "restarts", config_invalid: "settings", config_pending_restart: "settings",
  account_blocked: "platforms", account_disconnected: "platforms", outbox_stuck: "outbox", account_removed: "outbox",
};

export function Problems({ problems }) {
  if (!problems.length) return html`<p class="all-well"><${Icon} name="check" /> Nothing is wrong.</p>`;
  return html`<ul class="wrongs">
    ${problems.map(({ level, code, what, remedy }) => html`<li key=${`${code} ${what}`} class=${level}>
      <${Icon} name="shield" />
      <div>
        <p><strong>${LEVELS[level] ?? level}:</strong> ${what}</p>
        ${remedy && html`<p class="remedy">${worded(remedy)}</p>`}
        ${PLACES[code] && html`<p class="remedy"><a href=${`#/${PLACES[code]}`}>${named(PLACES[code])}</a></p>`}
      </div>
    </li>`)}
  </ul>`;
}

const named = (view) => view[0].toUpperCase() + view.slice(1);

/** What stands between backticks is to be typed. */
export const worded = (text) => text.split("`").map((piece, place) => (place % 2 ? html`<code>${piece}</code>` : piece));

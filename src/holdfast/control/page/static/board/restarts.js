// Restarts: how far one has come that is under way, the way to ask for one, and the last ends of a process.
import { api } from "../api.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/fetched.js";
import { iso, lasted, moment, when } from "../view/times.js";
import { many } from "./figures.js";

const EVERY = 10; // seconds, where nothing is heard

const KINDS = { stop: "Stopped", signal: "Stopped by a signal", restart: "Restarted", replace: "Replaced", crash: "Crashed" };
const ASKED = {
  chat: "asked in a chat",
  cli: "asked on the machine",
  page: "asked on this page",
  signal: "by a signal",
  successor: "by its successor",
  nobody: "",
};

export function View({ page }) {
  const { value: status, problem } = useFetched(page.stirs, api.status, EVERY);
  return html`
    ${problem && page.connected && html`<p class="problem" role="alert">${problem}</p>`}
    <section class="card" aria-labelledby="now">
      <header class="between">
        <h2 id="now">Now</h2>
        ${standing(page) === "running" && html`<button type="button" class="quiet outlined" data-changes
          onClick=${() => page.set({ dialog: { kind: "restart" } })}>Restart the gateway…</button>`}
      </header>
      <${Now} page=${page} status=${status} />
    </section>
    <section class="card" aria-labelledby="before">
      <h2 id="before">Before</h2>
      ${status ? html`<${History} stops=${status.restarts} />` : html`<p class="quiet-text">Loading…</p>`}
    </section>`;
}

const standing = ({ connected, status }) => (connected ? status?.state : "away");

/** The page hears each phase as it comes; what else is known was asked for. */
function Now({ page, status }) {
  const { status: live, connected } = page;
  if (!connected) return html`<p role="status">The gateway is away. This page comes back with it.</p>`;
  if (!live) return null;
  if (live.state !== "running") return html`<${Going} live=${live} />`;
  return html`
    <p>Running${status && html` since <time datetime=${iso(status.started_at)}>${moment(status.started_at)}</time>, version ${status.version}`}.</p>
    ${live.pending && html`<p role="status">A restart waits until nothing runs: ${many(live.turns.running ?? 0, "turn runs", "turns run")}.</p>`}`;
}

function Going({ live }) {
  const turns = live.turns.running ?? 0;
  return html`<div role="status">
    <p><strong>${live.state === "restarting" ? "Restarting" : live.state === "stopping" ? "Stopping" : "Starting"}</strong>${live.phase && `: ${live.phase}`}</p>
    ${turns > 0 && html`<p>${many(turns, "turn")} to come to the end of ${turns === 1 ? "its" : "their"} step.</p>`}
    <progress aria-label="Under way"></progress>
  </div>`;
}

function History({ stops }) {
  if (!stops.length) return html`<p class="quiet-text">It has never been stopped.</p>`;
  return html`<div class="table" tabindex="0" role="region" aria-label="The last restarts"><table>
    <thead><tr><th scope="col">when</th><th scope="col">what</th><th scope="col">turns</th><th scope="col">away for</th><th scope="col">version</th></tr></thead>
    <tbody>${stops.map((stop) => html`<tr key=${stop.id}>
      <td><time datetime=${iso(stop.order.at)} title=${moment(stop.order.at)}>${when(stop.order.at)}</time></td>
      <td>${KINDS[stop.order.kind] ?? stop.order.kind}${reason(stop.order)}</td>
      <td>${left(stop)}</td>
      <td>${away(stop)}</td>
      <td>${stop.version}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

function reason({ by, principal, now, kind }) {
  const asked = kind === "signal" ? "" : ASKED[by] ?? by;
  const who = principal && by === "chat" ? ` by ${principal}` : "";
  return [asked && `, ${asked}${who}`, now && ", at once"].filter(Boolean).join("");
}

function left({ parked, interrupted }) {
  const told = [parked && `${parked} left at a step`, interrupted && `${interrupted} cut`].filter(Boolean);
  return told.join(", ") || "none left";
}

function away({ stopped_at, ready_at, order }) {
  if (ready_at === null) return "–";
  return lasted(Math.max(0, ready_at - (stopped_at ?? order.at)));
}

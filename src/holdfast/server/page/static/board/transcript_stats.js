// The usage that is shown in a transcript: of each reply, and of each turn.
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { iso, moment, when } from "../view/times.js";
import { count, many, money, percent, seconds, short } from "./number_format.js";
import { useReply, useTurn } from "./stats_loader.js";

/** The line is drawn before its stats are loaded, so that nothing moves. */
export function Reply({ seq, stats }) {
  const found = useReply(stats, seq);
  return html`<p class="usage-line">${found && html`<${Facts} facts=${[
    found.model,
    seconds(Math.max(0, found.ended_at - found.began_at)),
    ...used(found.usage),
    found.cost !== null && money(found.cost),
  ]} />`}</p>`;
}

const ENDS = { answered: "Answered", interrupted: "Interrupted by the next message", superseded: "Stopped", failed: "Failed" };

export function Turn({ id, seq, stats }) {
  const found = useTurn(stats, id, seq);
  const over = found && found.ended_at !== null;
  return html`<footer class="turn-line">
    <a href=${`#/turns/${encodeURIComponent(id)}`} title="The timeline of this turn">${over ? (ENDS[found.state] ?? found.state) : "Turn"}</a>
    ${found && html`<${Facts} facts=${[
      over && `after ${seconds(Math.max(0, found.ended_at - found.started_at))}`,
      many(found.steps, "step"),
      ...(over ? used(found.usage) : []),
      found.cost !== null && money(found.cost),
      found.resumed > 0 && `went on after ${many(found.resumed, "restart")}`,
      !over && LEFT[found.exit_reason],
    ]} />`}
    ${found?.deliveries.map((sent) => html`<${Sent} key=${sent.id} sent=${sent} />`)}
  </footer>`;
}

const LEFT = { parked: "left at a step", restart_timeout: "interrupted by a restart", shutdown_timeout: "interrupted by a stop" };

function Facts({ facts }) {
  return facts.filter(Boolean).map((fact) => html`<span key=${fact}>${fact}</span>`);
}

function used({ input_tokens = 0, output_tokens = 0, cached_tokens = 0 }) {
  if (!input_tokens && !output_tokens) return [];
  const cached = cached_tokens ? ` (${percent(Math.min(1, cached_tokens / input_tokens))} cached)` : "";
  return [`${short(input_tokens)} read${cached}`, `${short(output_tokens)} written`];
}

const SENT = {
  sent: ["check", "good", "delivered"],
  pending: ["dash", "soft", "pending"],
  sending: ["dash", "soft", "being sent"],
  streaming: ["dash", "soft", "being written"],
  unknown: ["question", "warn", "may have arrived"],
  failed: ["cross", "bad", "not delivered"],
};

/** The delivery state of a reply. */
function Sent({ sent: { kind, platform, state, attempts, error, updated_at } }) {
  const [icon, tone, label] = SENT[state] ?? ["question", "soft", state];
  const tried = attempts > 1 ? `, ${count(attempts)} tries` : "";
  return html`<span class=${`sent ${tone}`} title=${[moment(updated_at), error].filter(Boolean).join(": ")}>
    <${Icon} name=${icon} /> ${kind === "reply" ? "" : `${kind} `}${label} to ${platform}
    ${state === "sent" && html` <time datetime=${iso(updated_at)}>${when(updated_at)}</time>`}${tried}${error && state !== "sent" && `: ${error}`}
  </span>`;
}

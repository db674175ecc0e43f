// The usage that is shown in a transcript: of each reply, and of each turn.
import { _, _n } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { iso, moment, when } from "../view/times.js";
import { DELIVERY_KINDS } from "./delivery_kinds.js";
import { money, percent, seconds, short } from "./number_format.js";
import { useReply, useTurn } from "./stats_loader.js";
import { LEFT } from "./turn_state.js";

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

const ENDS = { answered: _("Answered"), interrupted: _("Interrupted by the next message"), superseded: _("Stopped"), failed: _("Failed") };

export function Turn({ id, seq, stats }) {
  const found = useTurn(stats, id, seq);
  const over = found && found.ended_at !== null;
  return html`<footer class="turn-line">
    <a href=${`#/turns/${encodeURIComponent(id)}`} title=${_("The timeline of this turn")}>${over ? (ENDS[found.state] ?? found.state) : _("Turn")}</a>
    ${found && html`<${Facts} facts=${[
      over && _("after {time}", { time: seconds(Math.max(0, found.ended_at - found.started_at)) }),
      _n("{n} step", "{n} steps", found.steps),
      ...(over ? used(found.usage) : []),
      found.cost !== null && money(found.cost),
      found.resumed > 0 && _n("resumed after {n} restart", "resumed after {n} restarts", found.resumed),
      !over && LEFT[found.exit_reason],
    ]} />`}
    ${found?.deliveries.map((sent) => html`<${Sent} key=${sent.id} sent=${sent} />`)}
  </footer>`;
}

function Facts({ facts }) {
  return facts.filter(Boolean).map((fact) => html`<span key=${fact}>${fact}</span>`);
}

function used({ input_tokens = 0, output_tokens = 0, cached_tokens = 0 }) {
  if (!input_tokens && !output_tokens) return [];
  const read = short(input_tokens);
  return [
    cached_tokens
      ? _("{tokens} read ({share} cached)", { tokens: read, share: percent(Math.min(1, cached_tokens / input_tokens)) })
      : _("{tokens} read", { tokens: read }),
    _("{tokens} written", { tokens: short(output_tokens) }),
  ];
}

const SENT = {
  sent: ["check", "good", (platform) => _("delivered to {platform}", { platform })],
  pending: ["dash", "soft", (platform) => _("waiting to be sent to {platform}", { platform })],
  sending: ["dash", "soft", (platform) => _("being sent to {platform}", { platform })],
  streaming: ["dash", "soft", (platform) => _("being written to {platform}", { platform })],
  unknown: ["question", "warn", (platform) => _("may have arrived at {platform}", { platform })],
  failed: ["cross", "bad", (platform) => _("not delivered to {platform}", { platform })],
};

/** The delivery state of a reply. */
function Sent({ sent: { kind, platform, state, attempts, error, updated_at } }) {
  const [icon, tone, label] = SENT[state] ?? ["question", "soft", (platform) => `${state}: ${platform}`];
  const tried = attempts > 1 ? `, ${_n("{n} attempt", "{n} attempts", attempts)}` : "";
  return html`<span class=${`sent ${tone}`} title=${[moment(updated_at), error].filter(Boolean).join(": ")}>
    <${Icon} name=${icon} /> ${kind === "reply" ? "" : `${DELIVERY_KINDS[kind] ?? kind}: `}${label(platform)}
    ${state === "sent" && html` <time datetime=${iso(updated_at)}>${when(updated_at)}</time>`}${tried}${error && state !== "sent" && `: ${error}`}
  </span>`;
}

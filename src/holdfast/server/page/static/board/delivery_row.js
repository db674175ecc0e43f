// The columns of a delivery in the outbox, and the button that sends it again.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { lasted } from "../view/times.js";
import { DELIVERY_KINDS } from "./delivery_kinds.js";
import { withCode } from "./problems.js";
import { Ago } from "./moment.js";
import { SessionLink } from "./session_link.js";
import { TurnLink } from "./turn_link.js";

const STATES = {
  streaming: [_("being written"), "running"],
  pending: [_("waiting"), "waiting"],
  sending: [_("being sent"), "running"],
  sent: [_("sent"), "good"],
  failed: [_("failed"), "bad"],
  unknown: [_("unknown"), "uncertain"],
};

export const deliveryColumns = (page, refresh) => [
  { name: "state", label: _("State"), of: ({ state }) => html`<span class=${`badge ${STATES[state][1]}`}>${STATES[state][0]}</span>` },
  { name: "to", label: _("To"), of: To },
  { name: "what", label: _("What"), tone: "words", of: What },
  { name: "attempts", label: _("Attempts"), tone: "figure", of: ({ attempts }) => attempts },
  { name: "next", label: _("Next attempt"), of: next },
  { name: "age", label: _("Age"), tone: "figure", of: ({ created_at }) => html`<${Ago} at=${created_at} />` },
  { name: "act", label: "", of: (delivery) => html`<${Again} page=${page} delivery=${delivery} refresh=${refresh} />` },
];

function To({ to, account }) {
  return html`<span class="clipped">${to}</span>${account !== "default" && html`<small>${account}</small>`}`;
}

function What({ state, text, kind, file, error, remedy, session_id, turn_id }) {
  return html`
    <span class="excerpt" dir="auto">${file && html`<code>${file}</code> `}${text || html`<em>${DELIVERY_KINDS[kind] ?? kind}</em>`}</span>
    ${error && html`<small class=${state === "sent" ? "" : "problem"}>${error}</small>`}
    ${remedy && html`<small>${withCode(remedy)}</small>`}
    ${session_id && html`<small class="inline-links"><span>${DELIVERY_KINDS[kind] ?? kind}</span>
      <span>${_("session {session}", { session: html`<${SessionLink} id=${session_id} />` })}</span>${turn_id && html`<span>${_("turn {turn}", { turn: html`<${TurnLink} id=${turn_id} />` })}</span>`}</small>`}`;
}

function next({ blocked_by, next_attempt_at }) {
  const seconds = next_attempt_at === null ? 0 : next_attempt_at - Date.now() / 1000;
  return { account: _("when connected"), chat: _("after another"), rate_limit: _("in {time}", { time: lasted(Math.max(1, seconds)) }), nothing: _("now") }[blocked_by] ?? "–";
}

/** One that may have arrived needs a confirmation: the chat may see it twice. */
function Again({ page, delivery, refresh }) {
  const [state, setState] = useState({ acting: false, problem: "" });
  if (delivery.resend_refusal || !["failed", "unknown"].includes(delivery.state)) return null;
  const send = async () => {
    await api.retry(delivery.id);
    await refresh();
  };
  const act = async () => {
    setState({ acting: true, problem: "" });
    try {
      await send();
      setState({ acting: false, problem: "" });
    } catch (failure) {
      setState({ acting: false, problem: failure.message });
    }
  };
  const question = () => page.set({ dialog: { kind: "confirm", title: _("Send it again?"), verb: _("Send again"), sentences: REPEATS, act: send } });
  return html`<button type="button" class="quiet outlined" data-changes disabled=${state.acting}
      aria-label=${_("Send again to {chat}", { chat: delivery.to })} onClick=${delivery.may_be_duplicate ? question : act}>${_("Send again")}</button>
    ${state.problem && html`<small class="problem" role="alert">${state.problem}</small>`}`;
}

const REPEATS = [
  _("No receipt came for it, so it may be in the chat already: look there first."),
  _("It is marked as a possible repetition."),
];

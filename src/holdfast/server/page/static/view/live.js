// The running step: the only view that a streamed delta draws again.
import { useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Markdown } from "./markdown.js";
import { Reasoned } from "./reasoning.js";
import { Step } from "./step.js";

export function Live({ conversation }) {
  const { live } = conversation;
  useObservable(live);
  const { step } = live;
  if (!step || step.idle) return conversation.running ? html`<${Thinking} label=${_("Starting…")} />` : null;
  const { text = "", reasoning = "", retry } = step;
  const calls = unseen(conversation, step);
  const quiet = !text && !reasoning && !step.calls?.length && !step.approvals?.length;
  // Not announced word by word: the live region of the page announces the complete reply.
  return html`<article class="reply live" aria-label=${_("Holdfast, answering")} aria-busy="true">
    ${reasoning && html`<${Reasoned} text=${reasoning} growing=${!text} />`}
    ${text && html`<div class="prose"><${Markdown} text=${text} /></div>`}
    ${calls.map((call) => html`<${Step} key=${call.id} call=${call} result=${null} live=${live} running />`)}
    ${retry && html`<${Thinking} label=${retry.text} />`}
    ${quiet && !retry && html`<${Thinking} label=${step.resumed ? _("Resuming…") : _("Thinking…")} />`}
  </article>`;
}

/** Running calls without a committed reply: normally there are none. */
function unseen({ records }, { calls = [] }) {
  if (!calls.length) return [];
  const shown = new Set();
  for (const { message } of records.slice(-50)) for (const { id } of message.calls ?? []) shown.add(id);
  return calls
    .filter(({ call_id }) => !shown.has(call_id))
    .map(({ call_id, name, arguments: given }) => ({ id: call_id, name, arguments: given }));
}

function Thinking({ label }) {
  return html`<p class="thinking"><span class="dots" aria-hidden="true"><i></i><i></i><i></i></span> ${label}</p>`;
}

// The approval card: a command that waits for a decision, and its buttons.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Code } from "./code.js";
import { lasted } from "./times.js";

export function Approvals({ conversation }) {
  const asked = conversation.live.step?.approvals ?? [];
  return html`<section class="approvals" aria-label=${_("Approvals")} hidden=${!asked.length}>
    ${asked.map((approval) => html`<${Card} key=${approval.id} approval=${approval} onAnnounce=${(text) => conversation.onAnnounce(text)} />`)}
  </section>`;
}

/** `children`: more facts, where the card is not in its own chat. `onAnswered` is called when an answer was accepted. */
export function Card({ approval, onAnnounce, onAnswered, children }) {
  const { id, command, reason, rule, deadline } = approval;
  const [problem, setProblem] = useState("");
  const [sending, setSending] = useState(false);
  const [comment, setComment] = useState("");
  const left = useLeft(deadline);
  useEffect(() => {
    onAnnounce(_("Your approval is needed. {reason} {command}", { reason, command }));
  }, [id]);

  // After an answer it stays until the gateway removes it: only then it is decided.
  const say = async (answer) => {
    setSending(true);
    setProblem("");
    try {
      await api.answer(id, answer);
      onAnswered?.();
    } catch (failure) {
      setProblem(failure.message);
      setSending(false);
    }
  };
  const yes = (scope) => () => say({ answer: "approve", scope });

  return html`<form class="approval" aria-label=${_("Approval")} onSubmit=${(event) => {
    event.preventDefault();
    say({ answer: "deny", comment });
  }}>
    <p class="question"><strong>${_("Allow this command?")}</strong> ${reason}</p>
    ${children}
    <pre tabindex="0"><${Code} text=${command} language="bash" /></pre>
    <div class="buttons" data-changes>
      <button type="button" class="primary" disabled=${sending} onClick=${yes("once")}>${_("Run once")}</button>
      ${rule && html`
        <button type="button" class="quiet" disabled=${sending} onClick=${yes("session")}
          title=${_("Also allows similar commands in this chat")}>${_("Allow in this chat")}</button>
        <button type="button" class="quiet" disabled=${sending} onClick=${yes("always")}
          title=${_("Also allows similar commands from now on")}>${_("Always allow")}</button>`}
      <span class="deny-form">
        <input type="text" dir="auto" maxlength="2000" value=${comment} disabled=${sending} aria-label=${_("Reason (optional)")}
          placeholder=${_("Reason (optional)")} onInput=${(event) => setComment(event.currentTarget.value)} />
        <button type="submit" class="quiet deny" disabled=${sending}>${_("Deny")}</button>
      </span>
    </div>
    <p class="time-left">${left > 0 ? _("{time} left to answer", { time: lasted(left) }) : _("The time to answer is over.")}</p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </form>`;
}

function useLeft(deadline) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return Math.max(0, Math.round(deadline - now / 1000));
}

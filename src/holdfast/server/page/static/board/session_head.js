// The head of a session: its title, platform, owner, usage and actions.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { PanelButton } from "../view/header.js";
import { Icon } from "../view/icons.js";
import { iso, moment, when } from "../view/times.js";
import { money, short } from "./number_format.js";
import { SessionActions } from "./session_actions.js";
import { SessionLink } from "./session_link.js";
import { chatName, person, SessionState } from "./session_state.js";

export function SessionHead({ page, conversation, session }) {
  const [notice, setNotice] = useState({ text: "", failed: false });
  const summary = useSummary(page, session);
  const notify = (text, failed = false) => {
    setNotice({ text, failed });
    if (!failed) page.announce(text); // a failure is an alert, which is announced by itself
  };
  return html`<header class="session-head">
    <div class="between">
      <a class="round" href="#/sessions" title=${_("All sessions")} aria-label=${_("All sessions")}><${Icon} name="left" /></a>
      <h2 dir="auto">${session.title || _("New chat")}</h2>
      <${SessionState} session=${{ ...session, summary }} />
      <span class="gap"></span>
      <${SessionActions} page=${page} conversation=${conversation} session=${session} notify=${notify} />
      <${PanelButton} page=${page} name="files" icon="files" label=${_("Files")} />
      <${PanelButton} page=${page} name="processes" icon="pulse" label=${_("Processes")} />
    </div>
    <${Facts} session=${session} summary=${summary} />
    ${notice.text && html`<p class=${notice.failed ? "readout problem" : "readout"} role=${notice.failed ? "alert" : undefined}>${notice.text}</p>`}
  </header>`;
}

/** Requested again after each change of the session. */
function useSummary(page, session) {
  const ask = async () => (await api.sessions({ ids: session.id, summary: true, subagents: true })).sessions[0]?.summary ?? null;
  const { value } = useFetched(page.changes, ask, 0, [session.id, session.state]);
  return value;
}

function Facts({ session, summary }) {
  const { platform, created_at, messages, model, previous, auto_reset_reason } = session;
  const { input_tokens = 0, output_tokens = 0 } = summary?.usage ?? {};
  return html`<p class="facts">
    <span><span class="platform">${platform}</span> ${chatName(session)}</span>
    ${summary?.owner && html`<span>${_("of {person}", { person: person(summary.owner, platform) })}</span>`}
    <span>${_("since {time}", { time: html`<time datetime=${iso(created_at)} title=${moment(created_at)}>${when(created_at)}</time>` })}</span>
    <span>${_n("{n} record", "{n} records", messages)}</span>
    ${model && html`<span>${model}</span>`}
    <span class="figure">${summary && _("{read} read, {written} written", { read: short(input_tokens), written: short(output_tokens) })}</span>
    ${summary && summary.cost !== null && html`<span class="figure">${_("cost {sum}", { sum: money(summary.cost) })}</span>`}
    ${previous && html`<span>${_("replaced {session}", { session: html`<${SessionLink} id=${previous} />` })}${auto_reset_reason && ` (${auto_reset_reason})`}</span>`}
  </p>`;
}

// The head of a session: what it is, where and whose, what it took, and what can be done to it.
import { api } from "../api.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/fetched.js";
import { PanelButton } from "../view/header.js";
import { Icon } from "../view/icons.js";
import { iso, moment, when } from "../view/times.js";
import { many, money, short } from "./figures.js";
import { SessionActs } from "./session_acts.js";
import { SessionLink } from "./session_link.js";
import { person, Standing } from "./standing.js";

export function SessionHead({ page, conversation, session }) {
  const [told, setTold] = useState({ text: "", failed: false });
  const gist = useGist(page, session);
  const tell = (text, failed = false) => {
    setTold({ text, failed });
    if (!failed) page.announce(text); // what has failed is an alert, and says so itself
  };
  return html`<header class="session-head">
    <div class="between">
      <a class="round" href="#/sessions" title="All sessions" aria-label="All sessions"><${Icon} name="left" /></a>
      <h2>${session.title || "New chat"}</h2>
      <${Standing} session=${{ ...session, gist }} />
      <span class="gap"></span>
      <${SessionActs} page=${page} conversation=${conversation} session=${session} tell=${tell} />
      <${PanelButton} page=${page} name="files" icon="files" label="Files" />
      <${PanelButton} page=${page} name="processes" icon="pulse" label="Processes" />
    </div>
    <${Facts} session=${session} gist=${gist} />
    ${told.text && html`<p class=${told.failed ? "told problem" : "told"} role=${told.failed ? "alert" : undefined}>${told.text}</p>`}
  </header>`;
}

/** Asked for again when something has happened in it. */
function useGist(page, session) {
  const ask = async () => (await api.sessions({ ids: session.id, gist: true, children: true })).sessions[0]?.gist ?? null;
  const { value } = useFetched(page.stirs, ask, 0, [session.id, session.state]);
  return value;
}

function Facts({ session, gist }) {
  const { platform, chat, created_at, messages, model, previous, auto_reset_reason } = session;
  const { input_tokens = 0, output_tokens = 0 } = gist?.usage ?? {};
  return html`<p class="facts">
    <span><span class="platform">${platform}</span> ${chat}</span>
    ${gist?.owner && html`<span>of ${person(gist.owner, platform)}</span>`}
    <span>since <time datetime=${iso(created_at)} title=${moment(created_at)}>${when(created_at)}</time></span>
    <span>${many(messages, "record")}</span>
    ${model && html`<span>${model}</span>`}
    <span class="figure">${gist && `${short(input_tokens)} read, ${short(output_tokens)} written`}</span>
    ${gist && gist.cost !== null && html`<span class="figure">cost ${money(gist.cost)}</span>`}
    ${previous && html`<span>took the place of <${SessionLink} id=${previous} />${auto_reset_reason && ` (${auto_reset_reason})`}</span>`}
  </p>`;
}

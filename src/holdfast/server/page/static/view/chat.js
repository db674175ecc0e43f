// The middle of the page: one conversation, or a new one.
import { OURS } from "../conversation.js";
import { useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Approvals } from "./approvals.js";
import { Banner } from "./banner.js";
import { ChatHeader } from "./header.js";
import { Composer } from "./composer.js";
import { Footer } from "./footer.js";
import { Waiting } from "./messages.js";
import { Transcript } from "./transcript.js";
import { Welcome } from "./welcome.js";

export function Chat({ page, narrow, covered }) {
  const { conversation } = page;
  return html`<main class="chat" inert=${covered}>
    <${ChatHeader} page=${page} narrow=${narrow} />
    <${Banner} page=${page} />
    ${conversation
      ? html`<${Opened} key=${conversation.id} page=${page} conversation=${conversation} />`
      : html`<${Beginning} page=${page} />`}
    <${Footer} page=${page} />
  </main>`;
}

function Opened({ page, conversation }) {
  useObservable(conversation, conversation.live);
  if (conversation.problem && !conversation.problem.temporary) {
    return html`<div class="missing"><h2>${_("This chat cannot be opened")}</h2><p>${conversation.problem.unopened}</p></div>`;
  }
  const closed = page.viewer ? LOOKING : conversation.session && whyClosed(conversation.session);
  return html`
    <${Transcript} conversation=${conversation} seek=${page.seek} />
    <${Approvals} conversation=${conversation} />
    ${closed
      ? html`<div class="closed">
          <p>${closed}${elsewhere(page, conversation.session) && html` <a href=${`#/sessions/${encodeURIComponent(conversation.id)}`}>${_("Send a message to it from the dashboard.")}</a>`}</p>
          <button type="button" class="primary" data-changes onClick=${() => page.goTo(null)}>${_("New chat")}</button>
        </div>`
      : html`<${Composer} page=${page} draftKey=${conversation.id} running=${conversation.running}
          onSend=${(message) => page.send(message)} onStop=${() => page.stop()} />`}
  `;
}

const LOOKING = _("You are a viewer: you can see everything here and change nothing.");

/** The composer for a chat of another platform: the reply goes to that platform. */
const elsewhere = ({ viewer }, session) => !viewer && session?.current && !OURS.includes(session.platform);

function whyClosed({ current, suspended, platform }) {
  if (!OURS.includes(platform)) return _("This chat is on {platform}: you can read it here, and write to it there.", { platform });
  if (current) return "";
  return suspended
    ? _("This chat is suspended: its turns were interrupted too often.")
    : _("This chat has ended. You can still read it here, and /sessions in another chat lists it.");
}

function Beginning({ page }) {
  useObservable(page.outbox);
  if (page.viewer) return html`<div class="missing"><h2>${_("Choose a chat")}</h2><p>${LOOKING}</p></div>`;
  const waiting = page.outbox.of(null, page.newName);
  return html`
    <div class="transcript">
      <div class="scroller" tabindex="0" role="region" aria-label=${_("Conversation")}>
        <div class="column">
          ${waiting.length
            ? waiting.map((entry) => html`<${Waiting} key=${entry.message_id} entry=${entry}
                onRetry=${() => page.outbox.retry(entry.message_id)} onDrop=${() => page.outbox.drop(entry.message_id)} />`)
            : html`<${Welcome} page=${page} />`}
        </div>
      </div>
    </div>
    <${Composer} page=${page} draftKey="new" running=${false} onSend=${(message) => page.send(message)} />
  `;
}

// The middle of the page: one conversation, or a new one.
import { useObservable } from "../observable.js";
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
    return html`<div class="missing"><h2>This chat cannot be opened</h2><p>${conversation.problem.unopened}</p></div>`;
  }
  const closed = page.viewer ? LOOKING : conversation.session && whyClosed(conversation.session);
  return html`
    <${Transcript} conversation=${conversation} seek=${page.seek} />
    <${Approvals} conversation=${conversation} />
    ${closed
      ? html`<div class="closed">
          <p>${closed}${elsewhere(page, conversation.session) && html` <a href=${`#/sessions/${encodeURIComponent(conversation.id)}`}>Speak into it from the dashboard.</a>`}</p>
          <button type="button" class="primary" data-changes onClick=${() => page.goTo(null)}>New chat</button>
        </div>`
      : html`<${Composer} page=${page} draftKey=${conversation.id} running=${conversation.running}
          onSend=${(message) => page.send(message)} onStop=${() => page.stop()} />`}
  `;
}

const LOOKING = "You see everything here as a viewer, and change nothing.";
const OURS = ["web", "api"]; // platforms whose chats the page can write in

/** The composer for a chat of another platform: the reply goes to that platform. */
const elsewhere = ({ viewer }, session) => !viewer && session?.current && !OURS.includes(session.platform);

function whyClosed({ current, suspended, platform }) {
  if (!OURS.includes(platform)) return `This chat is on ${platform}: it can be read here, and spoken to there.`;
  if (current) return "";
  return suspended ? "This chat is suspended: it was cut too often." : "This chat has ended. It can still be read here, and /sessions in another lists it.";
}

function Beginning({ page }) {
  useObservable(page.outbox);
  if (page.viewer) return html`<div class="missing"><h2>Choose a chat</h2><p>${LOOKING}</p></div>`;
  const waiting = page.outbox.of(null, page.newName);
  return html`
    <div class="transcript">
      <div class="scroller" tabindex="0" role="region" aria-label="Conversation">
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

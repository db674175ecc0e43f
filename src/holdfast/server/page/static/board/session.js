// A session: its transcript with usage, and its actions.
import { OURS } from "../conversation.js";
import { useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html, useEffect, useMemo } from "../vendor/preact-htm.module.js";
import { Approvals } from "../view/approvals.js";
import { Composer } from "../view/composer.js";
import { Transcript } from "../view/transcript.js";
import { StatsLoader } from "./stats_loader.js";
import { SessionHead } from "./session_head.js";
import { Reply, Turn } from "./transcript_stats.js";

export function Opened({ page }) {
  const { conversation } = page;
  return conversation && html`<${Session} key=${conversation.id} page=${page} conversation=${conversation} />`;
}

function Session({ page, conversation }) {
  useObservable(conversation, conversation.live);
  const annotations = useAnnotations(conversation);
  const { problem, session } = conversation;
  if (problem && !problem.temporary) {
    return html`<div class="missing" role="alert">
      <h2>${_("This session cannot be opened")}</h2><p>${problem.unopened}</p><p><a href="#/sessions">${_("All sessions")}</a></p>
    </div>`;
  }
  return html`
    ${session && html`<${SessionHead} page=${page} conversation=${conversation} session=${session} />`}
    <${Transcript} conversation=${conversation} seek=${page.seek} annotations=${annotations} />
    <${Approvals} conversation=${conversation} />
    ${session && html`<${Speaking} page=${page} conversation=${conversation} session=${session} />`}
  `;
}

/** The usage shown in the transcript. A turn that ended without another record is requested again. */
function useAnnotations(conversation) {
  const annotations = useMemo(() => ({ stats: new StatsLoader(conversation.id), Reply, Turn }), [conversation]);
  useEffect(() => () => annotations.stats.close(), [annotations]);
  useEffect(() => {
    const last = conversation.records.at(-1);
    if (!conversation.running && last?.turn_id) annotations.stats.request(last.seq, last.turn_id);
  }, [annotations, conversation.running]);
  return annotations;
}

function Speaking({ page, conversation, session }) {
  const closed = page.viewer ? _("You are a viewer: you can see everything here and change nothing.") : whyClosed(session);
  if (closed) return html`<div class="closed"><p>${closed}</p></div>`;
  const hint = OURS.includes(session.platform) ? "" : _("You write as the operator; the answer is sent to {platform}", { platform: session.platform });
  return html`<${Composer} page=${page} draftKey=${conversation.id} running=${conversation.running} hint=${hint} calm
    onSend=${(message) => page.send(message)} onStop=${() => page.stop()} />`;
}

const INTERNAL = "internal"; // where agents work for other agents, and jobs

function whyClosed({ current, suspended, platform }) {
  if (platform === INTERNAL) return _("An agent works here for another agent or for a job. Write to the session that started it.");
  if (current) return "";
  if (suspended) return _("It is suspended: the next message in its chat starts another session. Resume it to write to it.");
  return _("Its chat continues in another session. Resume this one to write to it.");
}

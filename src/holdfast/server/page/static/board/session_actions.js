// The actions on a session: each acts like its command in the chat.
import { address, api } from "../api.js";
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { Menu } from "../view/menu.js";

/** `notify(text, failed)` shows the result. */
export function SessionActions({ page, conversation, session, notify }) {
  const [acting, setActing] = useState(false);
  const act = async (does, done) => {
    setActing(true);
    try {
      await does();
      notify(done);
    } catch (failure) {
      notify(failure.message, true);
    }
    setActing(false);
  };
  const { id, current, suspended } = session;
  const suspend = () => act(() => api.move(id, "suspend"), _("Suspended. The next message in its chat starts another session."));
  const resume = () => act(() => api.move(id, "resume"), _("Resumed. Its chat continues in this session."));
  const stop = () => act(() => api.stop(id), _("Stopped."));
  const items = page.viewer ? [exported(session)] : offered({ page, session, notify, suspend });
  return html`
    <span class="actions" data-changes>
      ${conversation.running && html`<button type="button" class="quiet outlined stop-session" disabled=${acting} onClick=${stop}>${_("Stop")}</button>`}
      ${(suspended || !current) && session.platform !== "internal" && html`<button type="button" class="quiet outlined" disabled=${acting} onClick=${resume}>${_("Resume")}</button>`}
    </span>
    <${Menu} icon="more" title=${_("Actions")} items=${items} />
  `;
}

const exported = ({ id }) => ({ label: _("Export"), icon: "download", href: address.export(id), download: `${id}.jsonl` });

/** The actions that its state allows; those that cannot be undone need a confirmation. */
function offered({ page, session, notify, suspend }) {
  const { id, current, platform } = session;
  const ask = (dialog) => page.set({ dialog: { kind: "confirm", ...dialog } });
  const moveSession = async (where, body, done) => {
    const fresh = await api.move(id, where, body);
    page.followSession(fresh.id);
    page.announce(done);
  };
  return [
    { label: _("Rename"), icon: "pencil", act: () => page.set({ dialog: { kind: "rename", session } }) },
    current && { label: _("Suspend"), icon: "dash", help: _("Its chat starts another session"), act: suspend },
    current && { label: _("Fork"), icon: "copy", help: _("Its chat continues in a copy"), act: () => ask({
      title: _("Continue in a copy?"), verb: _("Fork"), field: { label: _("Title of the copy"), value: _("{title} (fork)", { title: session.title || _("New chat") }).slice(0, 200) },
      sentences: [_("Its chat continues in the copy, and gets a notice about that."), _("This session stays unchanged.")],
      act: (form) => moveSession("fork", { title: form.elements.words.value.trim() }, _("Forked. This is the copy.")),
    }) },
    current && { label: _("Reset"), icon: "again", help: _("Its chat starts an empty session"), act: () => ask({
      title: _("Start an empty session?"), verb: _("Reset"), danger: true,
      sentences: [_("A running turn is stopped. Its chat continues in an empty session, and gets a notice about that."), _("This session is kept and can be resumed.")],
      act: () => moveSession("reset", undefined, _("Reset. This is the new session.")),
    }) },
    ["web", "api"].includes(platform) && { label: _("Open as a chat"), icon: "bubble", href: `#/chat/${encodeURIComponent(id)}` },
    exported(session),
    { label: _("Delete"), icon: "trash", danger: true, act: () => page.set({ dialog: { kind: "delete", session } }) },
  ].filter(Boolean);
}

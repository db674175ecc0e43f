// The actions on a session: each acts like its command in the chat.
import { address, api } from "../api.js";
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
  const suspend = () => act(() => api.move(id, "suspend"), "Suspended. What is said next in its chat begins another session.");
  const resume = () => act(() => api.move(id, "resume"), "Resumed. Its chat goes on in this session.");
  const stop = () => act(() => api.stop(id), "Stopped.");
  const items = page.viewer ? [exported(session)] : offered({ page, session, notify, suspend });
  return html`
    <span class="actions" data-changes>
      ${conversation.running && html`<button type="button" class="quiet outlined stop-session" disabled=${acting} onClick=${stop}>Stop</button>`}
      ${(suspended || !current) && session.platform !== "internal" && html`<button type="button" class="quiet outlined" disabled=${acting} onClick=${resume}>Resume</button>`}
    </span>
    <${Menu} icon="more" title="What can be done to it" items=${items} />
  `;
}

const exported = ({ id }) => ({ label: "Export", icon: "download", href: address.export(id), download: `${id}.jsonl` });

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
    { label: "Rename", icon: "pencil", act: () => page.set({ dialog: { kind: "rename", session } }) },
    current && { label: "Suspend", icon: "dash", help: "Its chat begins another", act: suspend },
    current && { label: "Fork", icon: "copy", help: "Its chat goes on in a copy", act: () => ask({
      title: "Go on in a copy?", verb: "Fork", field: { label: "Title of the copy", value: `${session.title || "New chat"} (fork)`.slice(0, 200) },
      sentences: ["Its chat goes on in the copy, and is told so.", "This one is kept as it is."],
      act: (form) => moveSession("fork", { title: form.elements.words.value.trim() }, "Forked. This is the copy."),
    }) },
    current && { label: "Reset", icon: "again", help: "Its chat begins anew", act: () => ask({
      title: "Begin anew?", verb: "Reset", danger: true,
      sentences: ["What runs is stopped, and its chat, which is told so, goes on in an empty session.", "This one is kept, and can be resumed."],
      act: () => moveSession("reset", undefined, "Reset. This is the fresh session."),
    }) },
    ["web", "api"].includes(platform) && { label: "Open as a chat", icon: "bubble", href: `#/chat/${encodeURIComponent(id)}` },
    exported(session),
    { label: "Delete", icon: "trash", danger: true, act: () => page.set({ dialog: { kind: "delete", session } }) },
  ].filter(Boolean);
}

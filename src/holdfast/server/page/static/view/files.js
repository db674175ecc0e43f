// The files of a session's workspace, to download.
import { address, api } from "../api.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "./use_fetched.js";
import { Icon } from "./icons.js";
import { iso, moment, size, when } from "./times.js";

export function Files({ conversation }) {
  const { value: files, problem } = useFetched(conversation, () => api.files(conversation.id), 0);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!files) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  if (!files.length) return html`<p class="quiet-text">${_("The workspace is empty. It will list files that you attach and files that the agent creates.")}</p>`;
  return html`<ul class="files">
    ${files.map((file) => html`<${File} key=${file.path} file=${file} id=${conversation.id} />`)}
  </ul>`;
}

function File({ file: { path, size: bytes, modified_at }, id }) {
  const cut = path.lastIndexOf("/") + 1;
  return html`<li><a href=${address.file(id, path)} download=${path.slice(cut)}>
    <${Icon} name="file" />
    <span class="path"><span class="folder">${path.slice(0, cut)}</span>${path.slice(cut)}</span>
    <span class="size">${size(bytes)}</span>
    <time datetime=${iso(modified_at)} title=${moment(modified_at)}>${when(modified_at)}</time>
    <${Icon} name="download" />
  </a></li>`;
}

// Standing approvals, for one chat or for good, and how to revoke one.
import { api } from "../api.js";
import { html } from "../vendor/preact-htm.module.js";
import { Moment } from "./moment.js";
import { Rows } from "./rows.js";
import { SessionLink } from "./session_link.js";

export function Rules({ page, rules, refresh }) {
  if (!rules.length) return null;
  const columns = [
    { name: "what", label: "What", tone: "words", of: ({ rule, reason }) => html`<code>${rule}</code><small>${reason}</small>` },
    { name: "whom", label: "For whom", of: ({ principal }) => principal },
    { name: "where", label: "Where", of: ({ scope, session_id }) => (scope === "always" ? "everywhere" : html`<${SessionLink} id=${session_id} />`) },
    { name: "since", label: "Since", of: ({ created_at }) => html`<${Moment} at=${created_at} />` },
    { name: "by", label: "By", of: ({ by }) => by },
    { name: "act", label: "", of: (rule) => html`<button type="button" class="quiet outlined" data-changes aria-label=${`Ask again about ${rule.rule}`} onClick=${() => drop(page, rule, refresh)}>Ask again</button>` },
  ];
  return html`<section class="card" aria-labelledby="standing">
    <h2 id="standing">Allowed without asking</h2>
    <${Rows} label="Allowed without asking" columns=${columns} rows=${rules} keyOf=${({ id }) => id} />
  </section>`;
}

function drop(page, { id, rule, principal }, refresh) {
  const act = async () => {
    await api.dropRule(id);
    await refresh();
  };
  const sentences = [`What the rule “${rule}” is about is asked again before it runs for ${principal}.`];
  page.set({ dialog: { kind: "confirm", title: "Ask again from now on?", verb: "Ask again", sentences, act } });
}

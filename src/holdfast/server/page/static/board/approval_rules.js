// Standing approvals, for one chat or for good, and how to revoke one.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Moment } from "./moment.js";
import { Rows } from "./rows.js";
import { SessionLink } from "./session_link.js";

export function Rules({ page, rules, refresh }) {
  if (!rules.length) return null;
  const columns = [
    { name: "what", label: _("What"), tone: "words", of: ({ rule, target, reason }) => html`<code>${target ? `${rule}: ${target}` : rule}</code><small>${reason}</small>` },
    { name: "whom", label: _("For"), of: ({ principal }) => principal },
    { name: "where", label: _("Where"), of: ({ scope, session_id }) => (scope === "always" ? _("everywhere") : html`<${SessionLink} id=${session_id} />`) },
    { name: "until", label: _("Until"), of: ({ expires_at }) => html`<${Moment} at=${expires_at} />` },
    { name: "by", label: _("By"), of: ({ by }) => by },
    { name: "act", label: "", of: (rule) => html`<button type="button" class="quiet outlined" data-changes aria-label=${_("Ask again about {rule}", { rule: rule.rule })} onClick=${() => drop(page, rule, refresh)}>${_("Ask again")}</button>` },
  ];
  return html`<section class="card" aria-labelledby="standing">
    <h2 id="standing">${_("Allowed without asking")}</h2>
    <${Rows} label=${_("Allowed without asking")} columns=${columns} rows=${rules} keyOf=${({ id }) => id} />
  </section>`;
}

function drop(page, { id, rule, principal }, refresh) {
  const act = async () => {
    await api.dropRule(id);
    await refresh();
  };
  const sentences = [_("Commands that the rule “{rule}” covers need an approval again before they run for {person}.", { rule, person: principal })];
  page.set({ dialog: { kind: "confirm", title: _("Ask again from now on?"), verb: _("Ask again"), sentences, act } });
}

"""`holdfast judge`: classifies a shell command as the approval policy would, without running it."""

from typing import TYPE_CHECKING

import click

from holdfast.cli.common.output import json_option, print_fields, print_json
from holdfast.core.people.approval import CommandRisk, CommandVerdict
from holdfast.core.text.translation import N_, _

if TYPE_CHECKING:
    from rich.text import Text

_COLOURS = {
    CommandRisk.HARMLESS: "green",
    CommandRisk.DANGEROUS: "yellow",
    CommandRisk.FORBIDDEN: "red",
}
_MEANINGS = {
    CommandRisk.HARMLESS: N_("runs without approval"),
    CommandRisk.DANGEROUS: N_("needs approval"),
    CommandRisk.FORBIDDEN: N_("is refused"),
}


@click.command("judge", context_settings={"ignore_unknown_options": True})
@click.argument("shell_command", metavar="COMMAND")
@json_option
def command(shell_command: str, as_json: bool) -> None:
    """Classify a shell command as the approval policy would, without running it.

    \b
    Example:
      holdfast judge 'rm -rf build'
    """
    from holdfast.tools.shell.judge import ShellJudge  # noqa: PLC0415 - it loads a grammar

    judgement = ShellJudge().judge(shell_command)
    if as_json:
        print_json(_json_fields(judgement))
    else:
        print_fields(_display_fields(judgement))


def _json_fields(judgement: CommandVerdict) -> dict[str, object]:
    """The first fields are those of the worst rule; `rules` has all that fired."""
    return {
        "level": judgement.level.value,
        "rule": judgement.rule,
        "why": judgement.why,
        "part": judgement.part,
        "rules": [
            {"rule": each.rule, "why": each.why, "part": each.part, "target": each.target}
            for each in judgement.matches
        ],
    }


def _display_fields(judgement: CommandVerdict) -> "list[tuple[str, str | Text]]":
    from rich.text import Text  # noqa: PLC0415 - not for --json

    from holdfast.tools.shell.rules.table import reason_for_person  # noqa: PLC0415 - with the judge

    level = (judgement.level.value, _COLOURS[judgement.level])
    meaning = _(_MEANINGS[judgement.level])
    facts: list[tuple[str, str | Text]] = [(_("level"), Text.assemble(level, f": {meaning}"))]
    for match in judgement.matches:
        facts += [
            (_("rule"), match.rule),
            (_("why"), reason_for_person(match.rule, match.why)),
            (_("part"), match.part),
        ]
    return facts

"""`holdfast judge`: classifies a shell command as the approval policy would, without running it."""

import click

from holdfast.cli.common.output import json_option, print_fields, print_json
from holdfast.core.people.approval import CommandRisk, CommandVerdict

_COLOURS = {
    CommandRisk.HARMLESS: "green",
    CommandRisk.DANGEROUS: "yellow",
    CommandRisk.FORBIDDEN: "red",
}
_MEANINGS = {
    CommandRisk.HARMLESS: "runs without a question",
    CommandRisk.DANGEROUS: "a person is asked first",
    CommandRisk.FORBIDDEN: "refused",
}


@click.command("judge", context_settings={"ignore_unknown_options": True})
@click.argument("shell_command", metavar="COMMAND")
@json_option
def command(shell_command: str, as_json: bool) -> None:
    """Say what is thought of a shell command, without running it.

    \b
    holdfast judge 'rm -rf build'
    """
    # The grammar is of no use to any other command.
    from holdfast.tools.shell.judge import ShellJudge  # noqa: PLC0415 - see above

    judgement = ShellJudge().judge(shell_command)
    if as_json:
        print_json(_json_fields(judgement))
    else:
        print_fields(_display_fields(judgement))


def _json_fields(judgement: CommandVerdict) -> dict[str, str]:
    return {
        "level": judgement.level.value,
        "rule": judgement.rule,
        "why": judgement.why,
        "part": judgement.part,
    }


def _display_fields(judgement: CommandVerdict) -> list[tuple[str, str]]:
    level = click.style(judgement.level.value, fg=_COLOURS[judgement.level])
    facts = [("level", f"{level}: {_MEANINGS[judgement.level]}")]
    if judgement.rule:
        facts += [("rule", judgement.rule), ("why", judgement.why), ("part", judgement.part)]
    return facts

"""Somebody who is asked at a terminal what a door wants to know."""

from typing import Protocol

import click

from holdfast.cli.common.output import wrap_text
from holdfast.core.ports.question import SetupQuestion


class Prompter(Protocol):
    def ask(self, question: SetupQuestion, *, default: str, hidden: bool) -> str:
        """The answer; "" only where it may be left empty."""
        ...

    def confirm(self, question: str, *, default: bool = True) -> bool: ...


class TerminalPrompter:
    """Asks with the words of the door. Ctrl-C is `click.Abort`, and nothing was written then."""

    def ask(self, question: SetupQuestion, *, default: str, hidden: bool) -> str:
        if question.help:
            click.echo(f"\n{wrap_text(question.help)}")
        empty = question.optional or question.generated
        label = f"{question.label} (it is not shown)" if hidden else question.label
        return str(
            click.prompt(
                f"{label}, or nothing" if empty and not default else label,
                default=default if default or empty else None,
                show_default=bool(default),
                hide_input=hidden,
            )
        ).strip()

    def confirm(self, question: str, *, default: bool = True) -> bool:
        return click.confirm(question, default=default)

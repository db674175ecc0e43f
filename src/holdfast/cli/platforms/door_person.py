"""Somebody who is asked at a terminal what a door wants to know."""

from typing import Protocol

import click

from holdfast.cli.common.output import wrapped
from holdfast.core.ports.question import Question


class Person(Protocol):
    def tell(self, question: Question, *, offered: str, unseen: bool) -> str:
        """The answer; "" only where it may be left empty."""
        ...

    def agrees(self, asked: str, *, usually: bool = True) -> bool: ...


class AtTerminal:
    """Asks with the words of the door. Ctrl-C is `click.Abort`, and nothing was written then."""

    def tell(self, question: Question, *, offered: str, unseen: bool) -> str:
        if question.help:
            click.echo(f"\n{wrapped(question.help)}")
        empty = question.optional or question.made
        label = f"{question.label} (it is not shown)" if unseen else question.label
        return str(
            click.prompt(
                f"{label}, or nothing" if empty and not offered else label,
                default=offered if offered or empty else None,
                show_default=bool(offered),
                hide_input=unseen,
            )
        ).strip()

    def agrees(self, asked: str, *, usually: bool = True) -> bool:
        return click.confirm(asked, default=usually)

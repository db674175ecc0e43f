"""`--help` has examples for every command, and each example is valid."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from holdfast.cli.root import COMMANDS, cli

# At the end of a line that may begin with what pipes into it, or that takes what it prints.
_LINE = re.compile(r"^ +(?:\S.*[|(] ?)?(holdfast [^`\n)]*[^`\n).:])\)?\"?$", re.MULTILINE)
_ENDS = ("|", "||", ">", "--")  # behind these it is the shell's, or words


def command_paths(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from command_paths(inner, (*path, name))


def help_text(*path: str) -> str:
    done = CliRunner().invoke(cli, [*path, "--help"], prog_name="holdfast")
    assert done.exit_code == 0, done.output
    return done.output


def examples(*path: str) -> list[str]:
    text = help_text(*path).partition("\nOptions:")[0].replace("\\\n", " ")
    return [str(found) for found in _LINE.findall(text)]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"version", "completion"}))
def test_every_command_teaches_by_an_example(name: str) -> None:
    assert any(each.startswith(f"holdfast {name}") for each in examples(name)), help_text(name)


def test_every_example_uses_existing_commands_and_options() -> None:
    found = {example for path in command_paths(cli) for example in examples(*path)}
    assert len(found) > 70
    for example in found:
        words = shlex.split(example)[1:]
        end = next((index for index, word in enumerate(words) if word in _ENDS), len(words))
        done = CliRunner().invoke(cli, [*words[:end], "--help"], prog_name="holdfast")
        assert done.exit_code == 0, (example, done.output)

"""docs/services.md: its commands and options exist, and its tables are complete."""

import re
import shlex

import click
import pytest
from tests.support.doc_pages import REPO, Page, Pages

from holdfast.cli.root import cli
from holdfast.service.supervisors import systemd_unit
from holdfast.service.supervisors.unit import Unit, UnitScope
from holdfast.system import exit_codes

PAGE = Page((REPO / "docs/services.md").read_text())
_OURS = re.compile(r".*\bholdfast (?=gateway|link)")
LINES = [
    line
    for block in PAGE.blocks
    if block.language == "sh"
    for line in block.text.splitlines()
    if _OURS.match(line)
]


@pytest.mark.parametrize("line", LINES)
def test_every_command_of_the_page_exists(line: str) -> None:
    """Its name and its options are understood; nothing is done."""
    words = shlex.split(_OURS.sub("", line, count=1))
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, line
        command = found
    command.make_context(command.name or "", words)


def test_every_command_of_the_group_is_on_the_page() -> None:
    commands = {
        name.removeprefix("holdfast gateway ") for name in PAGE.named() if "gateway" in name
    }
    assert {"install", "uninstall", "start", "stop", "restart", "status", "logs"} <= commands


def test_every_exit_code_of_a_gateway_is_on_the_page() -> None:
    codes = {name for name in PAGE.named() if name.isdigit()}
    ours = (
        exit_codes.OK,
        exit_codes.FAILED,
        exit_codes.HOME_IN_USE,
        exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE,
        exit_codes.CONFIG_EXIT,
    )
    assert codes == {str(code) for code in ours}


def test_every_line_that_confines_the_unit_is_explained(page: Pages) -> None:
    unit = Unit(
        name="holdfast",
        scope=UnitScope.SYSTEM,
        home=REPO,
        program=("/bin/true",),
        stop_seconds=90,
        user="nobody",
    )
    rendered = systemd_unit.render_unit(unit, version=257)
    explained = re.findall(r"`(\w+=[\w.]+)`", page("docs/services.md").text)
    confining = ("UMask", "NoNew", "Lock", "RestrictRealtime", "Protect", "OOM", "LimitCORE")
    lines = [line for line in rendered.splitlines() if line.startswith(confining)]
    assert len(lines) == 7
    assert [line for line in lines if line not in explained] == []

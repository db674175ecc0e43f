"""docs/services.md: its commands and options exist, and its tables are complete."""

import re
import shlex
import tomllib

import click
import pytest
from tests.support.doc_pages import REPO, Page, Pages

from holdfast.cli.root import cli
from holdfast.config.platforms import BUILT_IN_PLUGINS
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


def test_the_image_has_the_libraries_of_every_platform() -> None:
    """Each extra that a platform has, and each that only adds to the library of one."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    libraries = {
        re.split(r"[\[<>=]", each)[0] for name in BUILT_IN_PLUGINS for each in extras.get(name, ())
    }
    needed = {
        name
        for name, requires in extras.items()
        if name in BUILT_IN_PLUGINS
        or (name != "all" and libraries & {re.split(r"[\[<>=]", each)[0] for each in requires})
    }
    assert {"telegram", "discord", "slack", "matrix", "e2e", "xmpp", "email"} <= needed
    dockerfile = (REPO / "Dockerfile").read_text().replace("\\\n", " ")
    argument = re.search(r'^ARG EXTRAS="(.*)"$', dockerfile, re.MULTILINE)
    assert argument is not None
    syncs = re.findall(r"^RUN uv sync (.*)$", dockerfile, re.MULTILINE)
    assert syncs
    for command in syncs:
        installed = re.findall(r"--extra (\S+)", command.replace("${EXTRAS}", argument[1]))
        assert needed <= {*installed}, command
    compose = (REPO / "compose.yaml").read_text()
    assert "build: ." in compose and "EXTRAS" not in compose, "compose builds the image as it is"


def test_what_does_not_work_on_macos_comes_first() -> None:
    section = PAGE.text.partition("## macOS")[2].partition("\n## ")[0]
    assert section.strip().startswith("**The tools of agents do not work on macOS**")
    install = (REPO / "README.md").read_text().partition("## Install and run")[2]
    assert "macOS" in install.strip().splitlines()[0]

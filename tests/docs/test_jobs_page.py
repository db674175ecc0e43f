"""docs/jobs.md: every line of it can be typed, and the options are those there are."""

import re
import shlex
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from tests.support.doc_pages import Pages

from holdfast.cli.root import cli
from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.jobs.job import HOME, NOWHERE, ORIGIN, MissedRunPolicy, OverlapPolicy, RunSession
from holdfast.core.jobs.parser import parse_job, parse_schedule, split_zone

NOW = datetime(2026, 11, 16, tzinfo=UTC).timestamp()


def check_schedule(text: str) -> None:
    words, zone = split_zone(text)
    parse_schedule(words, now=NOW, zone=UTC, zone_name=zone)


def test_every_line_of_the_first_block_can_be_typed(page: Pages) -> None:
    lines = page("docs/jobs.md").blocks[0].text.splitlines()
    for line in lines:
        if (added := line.removeprefix("/cron add ")) != line:
            check_schedule(parse_job(added).when)
    verbs = re.findall(r"(?:\[|\| )(\w+)", COMMANDS_BY_NAME["cron"].arguments)
    assert {line.split()[1] for line in lines} == set(verbs)


def test_every_time_of_the_table_is_understood(page: Pages) -> None:
    section = page("docs/jobs.md").text.split("## Times")[1].split("##")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    times = [time for row in rows for time in re.findall(r"`([^`]+)`", row)]
    assert len(times) > 20
    for time in times:
        check_schedule(time)


def test_the_options_on_the_page_are_the_existing_ones(page: Pages) -> None:
    rows = page("docs/jobs.md").named()
    for option, values in (
        ("to", [ORIGIN, HOME, NOWHERE]),
        ("session", RunSession),
        ("missed", MissedRunPolicy),
        ("overlap", OverlapPolicy),
    ):
        assert set(re.findall(r"`([a-z]+)`", rows[option][1])) == set(values)


@pytest.mark.parametrize("place", range(8))
def test_every_line_for_the_shell_is_a_command(page: Pages, place: int) -> None:
    """Not carried out: asked for its help, with its own arguments, it is known."""
    [block] = [block for block in page("docs/jobs.md").blocks if block.language == "sh"]
    line = shlex.split(block.text.splitlines()[place])
    assert line[0] == "holdfast"
    done = CliRunner().invoke(cli, [*line[1:], "--help"])
    assert done.exit_code == 0, done.output

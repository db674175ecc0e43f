"""docs/pairing.md and docs/groups.md: what they say can be typed, loads, and is what happens."""

import json
import re
import shlex
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.doc_pages import Pages

from holdfast.cli.root import cli
from holdfast.config import load
from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.messages.source import Author, Quote, format_quote
from holdfast.core.people.pairing import MAX_PENDING, MAX_WRONG_CODES
from holdfast.gateway.access import Role
from holdfast.gateway.inbound.inbound_policy import LOOP_RESET_AFTER, MAX_IN_A_ROW
from holdfast.gateway.inbound.pairing import CODE_TEXT
from holdfast.testing.simulated.events import SayRequest


@pytest.mark.parametrize("name", ["pairing", "groups"])
def test_the_settings_on_the_page_load(page: Pages, tmp_path: Path, name: str) -> None:
    (block,) = [b.text for b in page(f"docs/{name}.md").blocks if b.language == "toml"]
    (tmp_path / "holdfast.toml").write_text(block)
    assert load(tmp_path, {}).settings.platforms["simulated"].allow


def test_every_line_for_the_shell_is_a_command(page: Pages) -> None:
    (block,) = [b.text for b in page("docs/pairing.md").blocks if b.language == "sh"]
    verbs = set()
    for line in map(shlex.split, block.splitlines()):
        assert line[:2] == ["holdfast", "pairing"]
        verbs.add(line[2])
        done = CliRunner().invoke(cli, [*line[1:], "--help"])
        assert done.exit_code == 0, done.output
    assert verbs == {"list", *re.findall(r"(\w+) [A-Z]+", COMMANDS_BY_NAME["pairing"].arguments)}


def test_an_unknown_sender_reads_what_the_page_shows(page: Pages) -> None:
    shown = [b.text for b in page("docs/pairing.md").blocks if b.language == "text"]
    assert shown == [CODE_TEXT.format(code="WX7K-2MPD") + "\n"]


def test_the_roles_and_numbers_on_the_page_are_the_real_ones(page: Pages) -> None:
    text = page("docs/pairing.md").text
    assert {row[0] for row in page("docs/pairing.md").rows} >= {role.value for role in Role}
    assert f"at most {MAX_PENDING} people" in text and f"After {MAX_WRONG_CODES} wrong" in text
    groups = page("docs/groups.md").text
    assert f"{MAX_IN_A_ROW} messages in a row from one sender" in groups and LOOP_RESET_AFTER == 600
    assert all(f"`{author}`" in groups for author in Author)


def test_the_quote_on_the_page_is_what_the_agent_reads(page: Pages) -> None:
    (shown,) = [b.text for b in page("docs/groups.md").blocks if b.language == "text"]
    quoted = format_quote(Quote(text="the red one is broken", user_name="Bob"))
    assert shown == f"{quoted}\n\nAnn: is that so?\n"


def test_the_phrases_on_the_page_are_commands(page: Pages) -> None:
    (block,) = [b.text for b in page("docs/groups.md").blocks if b.language == "sh"]
    said = [
        msgspec.convert(json.loads(shlex.split(line)[-1]), SayRequest)
        for line in block.splitlines()
    ]
    assert [each.mentions for each in said] == [False, True]

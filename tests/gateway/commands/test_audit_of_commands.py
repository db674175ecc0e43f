"""The audit of commands: each change that a command makes has an audit row."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.audit_rows import ANN, audit_rows
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.commands import COMMANDS
from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.sessions.session import CommandEffect
from holdfast.store.sqlite.writes.audit_log import AUDITED_EFFECTS

# Commands in the order in which they are given; each has an audit row.
AUDITED_COMMANDS = (
    "/title about crabs",
    "/busy queue",
    "/model another",
    "/quiet on",
    "/sethome",
    "/memory add likes tea",
    '/cron add "every day at 9" greet me',
    "/fork a copy",
    "/undo",
    "/new",
    "/resume about crabs",
    "/retry",
    "/background count the crabs",
)
NOT_AUDITED = {
    "help": "it only tells",
    "search": "it only tells",
    "sessions": "it only tells",
    "status": "it only tells",
    "usage": "it only tells",
    "queue": "it is a message of its sender, and its own record",
    "steer": "it is a message of its sender, and its own record",
}
# Commands whose audit rows other tests of tests/gateway check, and those tests.
TESTED_ELSEWHERE = {
    "approve": "test_audit.py::test_an_approval_its_answer_and_its_standing_rule_are_audited",
    "approvals": "test_audit.py::test_an_approval_its_answer_and_its_standing_rule_are_audited",
    "deny": "test_audit.py::test_a_denial_in_the_chat_and_a_withdrawn_approval_are_audited",
    "stop": "test_audit.py::test_a_denial_in_the_chat_and_a_withdrawn_approval_are_audited",
    "pairing": "test_audit_of_access.py::test_pairing_decisions_are_audited_with_their_actor",
    "restart": "test_audit.py::test_account_changes_messages_and_gateway_stops_are_audited",
}
EFFECT_TESTED = {"compact": "its effect is `compaction`, which the next test has"}
# The fields of a command effect that change nothing.
NO_CHANGES = {
    "inbox_ends": "the end of the command's own row, and of what it drops",
    "source": "where it comes from",
    "by": "who it is",
    "deliveries": "what is said about it",
    "session_id": "where it acts",
    "route": "where it acts",
    "reset": "why a session that something else opens is fresh",
    "supersede_before": "goes with `new_session`",
    "keep": "goes with `new_session`",
    "compaction_usage": "goes with `compaction`",
    "decision": "has rows of its own",
    "pairing": "has a row of its own",
    "at": "when",
}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A gateway with notes, whose operator is ann."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.settings = Settings(platforms={"simulated": PlatformSettings(operators=("ann",))})
    harness.with_notes = True
    await harness.start()
    yield harness
    await harness.stop()


def test_every_command_effect_is_audited_or_listed_as_no_change() -> None:
    """A new field that is in neither set would be a change without an audit row."""
    fields = {field.name for field in msgspec.structs.fields(CommandEffect)}
    assert fields == AUDITED_EFFECTS | NO_CHANGES.keys()
    assert not AUDITED_EFFECTS & NO_CHANGES.keys()


def test_every_command_is_tested_or_says_why_not() -> None:
    typed = {text.split()[0].removeprefix("/") for text in AUDITED_COMMANDS}
    named = NOT_AUDITED.keys() | TESTED_ELSEWHERE.keys() | EFFECT_TESTED.keys()
    assert typed | named == {spec.name for spec in COMMANDS}
    for test in TESTED_ELSEWHERE.values():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text(), test


async def test_command_text_is_stored_only_with_a_session(
    harness: GatewayHarness,
) -> None:
    """A chat without a session has nothing to delete the text with, and neither has a job."""
    harness.say('/cron add "every day at 9" greet me')
    await harness.sent(1)
    found = await audit_rows(harness)
    assert {row.kind for row in found} == {"command.given", "job.added"}
    assert [row.words for row in found if row.session_id is None] == [None, None]


async def test_a_command_that_changes_something_is_audited(harness: GatewayHarness) -> None:
    """G5: in the commit that ends it, with its user and its text."""
    harness.model.say(*(["yes"] * 10))
    harness.say("hello")
    await harness.sent(1)
    for text in AUDITED_COMMANDS:
        before = len(await audit_rows(harness, "command"))
        sent = len(harness.service.ledger().sent)
        harness.say(text)
        await harness.sent(sent + 1)
        found = await audit_rows(harness, "command")
        assert len(found) == before + 1, text
        row = found[-1]
        assert (row.actor, row.subject, row.words) == (ANN, text.split()[0], {"text": text})

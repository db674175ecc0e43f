"""The audit of commands: whatever one changes leaves a row, and the table of commands says so."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.gateway import test_audit, test_audit_of_access
from tests.support.audit_rows import ANN, rows
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.people.commands import COMMANDS
from holdfast.core.sessions.session import CommandEffect
from holdfast.store.sqlite.writes.audit_log import AUDITED_EFFECTS

# What is typed, in this order, and leaves a row.
TYPED = (
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
SILENT = {
    "help": "it only tells",
    "search": "it only tells",
    "sessions": "it only tells",
    "status": "it only tells",
    "usage": "it only tells",
    "queue": "it is a message of its sender, and its own record",
    "steer": "it is a message of its sender, and its own record",
}
ELSEWHERE: dict[str, Any] = {
    "approve": test_audit.test_an_approval_its_answer_and_its_standing_rule_are_audited,
    "approvals": test_audit.test_an_approval_its_answer_and_its_standing_rule_are_audited,
    "deny": test_audit.test_a_denial_in_the_chat_and_a_withdrawn_approval_are_audited,
    "stop": test_audit.test_a_denial_in_the_chat_and_a_withdrawn_approval_are_audited,
    "pairing": test_audit_of_access.test_pairing_decisions_are_audited_with_their_actor,
    "restart": test_audit.test_account_changes_messages_and_gateway_stops_are_audited,
    "compact": "its effect is `compaction`, which the next test has",
}
# Of what a command brings to its commit, what is no change of anything.
NO_CHANGES = {
    "inbox_ends": "the end of the command's own row, and of what it drops",
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
async def operated(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A gateway that ann operates, with notes."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.settings = Settings(platforms={"simulated": PlatformSettings(operators=("ann",))})
    harness.with_notes = True
    await harness.start()
    yield harness
    await harness.stop()


def test_every_command_effect_is_audited_or_listed_as_no_change() -> None:
    """A field that is added and is in neither would be a change that nobody hears of."""
    fields = {field.name for field in msgspec.structs.fields(CommandEffect)}
    assert fields == AUDITED_EFFECTS | NO_CHANGES.keys()
    assert not AUDITED_EFFECTS & NO_CHANGES.keys()


def test_every_command_is_tested_or_says_why_not() -> None:
    typed = {text.split()[0].removeprefix("/") for text in TYPED}
    assert typed | SILENT.keys() | ELSEWHERE.keys() == {spec.name for spec in COMMANDS}


async def test_command_text_is_stored_only_with_a_session(
    operated: GatewayHarness,
) -> None:
    """A chat that has none yet has nothing that could be deleted, and neither has a job."""
    operated.say('/cron add "every day at 9" greet me')
    await operated.sent(1)
    found = await rows(operated)
    assert {row.kind for row in found} == {"command.given", "job.added"}
    assert [row.words for row in found if row.session_id is None] == [None, None]


async def test_a_command_that_changes_something_is_audited(operated: GatewayHarness) -> None:
    """G5: in the commit that ends it, with who typed it and what."""
    operated.model.say(*(["yes"] * 10))
    operated.say("hello")
    await operated.sent(1)
    for text in TYPED:
        before = len(await rows(operated, "command"))
        told = len(operated.service.ledger().sent)
        operated.say(text)
        await operated.sent(told + 1)
        found = await rows(operated, "command")
        assert len(found) == before + 1, text
        row = found[-1]
        assert (row.actor, row.subject, row.words) == (ANN, text.split()[0], {"text": text})

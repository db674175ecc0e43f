"""The audit: requester, approver and effect of each action, in the commit of the action (K2)."""

from collections.abc import AsyncIterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.faults.audit_checks import audit_violations
from tests.support.approvals import LS, RM, ApprovalHarness
from tests.support.audit_rows import ANN, audit_rows
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.operator_messages import send_as_operator
from tests.support.stores import implementation, open_store

from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import NotAllowed, StoreError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import Inbound, InboxEnd, InboxState
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import OPERATOR, ApprovalScope, ApprovalState
from holdfast.core.people.audit import (
    GATEWAY_ACTOR,
    AuditChainLink,
    AuditEntry,
    AuditFilter,
    AuditKind,
    actor_of,
)
from holdfast.core.ports.store_commands import (
    PruneAudit,
    RecordAudit,
    RecordStop,
    RenameSession,
    SuspendSession,
)
from holdfast.core.ports.store_queries import ListAudit, ListSessions, VerifyAudit
from holdfast.core.secrets import Secret
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.access import MAX_ROWS
from holdfast.gateway.approvals.service import ApprovalResponse
from holdfast.gateway.notify.proactive import ProactiveSendRequest
from holdfast.gateway.redaction import Redaction
from holdfast.store.sqlite.reads import audit


@pytest.fixture
async def approval_harness(tmp_path: Path) -> AsyncIterator[ApprovalHarness]:
    harness = ApprovalHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


async def test_a_call_has_one_row_with_who_asked_and_a_turn_without_calls_has_none(
    harness: GatewayHarness, call: Call
) -> None:
    harness.model.say("hello", [call(ReplayClass.SAFE, '{"for": "crabs"}')], "found")
    harness.say("hi")
    await harness.sent(1)
    assert await audit_rows(harness) == []
    harness.say("look for crabs")
    await harness.sent(2)
    (row,) = await audit_rows(harness)
    assert (row.kind, row.actor, row.subject, row.outcome) == ("tool.call", ANN, "safe", "ok")
    assert row.session_id == await harness.only_session() and row.turn_id is not None
    assert row.words == {"arguments": '{"for": "crabs"}'}
    assert row.facts["allowed"] == "without asking"


async def test_a_steering_user_is_an_actor_of_the_later_calls(
    tmp_path: Path, call: Call, until: Until
) -> None:
    """Also where the user who started the turn has the id `operator`."""
    harness = GatewayHarness(tmp_path / "state.db")
    people = PlatformSettings(allow=("operator",))
    harness.settings = Settings(platforms={"simulated": people})
    await harness.start()
    held_tool = harness.held_tools[ReplayClass.SAFE]
    held_tool.go.clear()
    harness.model.say([call(ReplayClass.SAFE)], [call(ReplayClass.SAFE)], "done")
    harness.say("paint it", user="operator")
    await held_tool.wait_until_started(1)
    session_id = await harness.only_session()
    await send_as_operator(harness, session_id, "/steer in green")
    lane = harness.gateway.lanes.get(session_id)
    await until(lambda: lane is not None and lane.turn is not None and bool(lane.turn.steers))
    held_tool.go.set()
    await harness.sent(1)
    first, second = await audit_rows(harness, "tool")
    assert first.actor == "simulated:default:operator"
    assert second.actor == f"{first.actor}, {OPERATOR}"
    await harness.stop()


async def test_the_name_of_an_unknown_tool_is_stored_as_text_of_the_session(
    harness: GatewayHarness, call: Call
) -> None:
    """It is deleted with the session, whatever the model made up as the name."""
    named = msgspec.structs.replace(call(ReplayClass.SAFE), name="my name is Ann " * 90)
    harness.model.say([named], "done")
    harness.say("go")
    await harness.sent(1)
    (row,) = await audit_rows(harness)
    assert (row.kind, row.subject) == ("tool.call", "")
    assert row.words is not None and row.words["tool"].startswith("my name is Ann")


async def test_audited_text_is_truncated_and_redacted(harness: GatewayHarness, call: Call) -> None:
    """Law 13: also where truncation would have left half of a secret."""
    await harness.stop()
    secret = "s3cret-" + "x" * 60
    redact = Redaction([Secret(secret)])
    harness.open_store = lambda path: open_store(path, redact=redact)
    await harness.start()
    harness.model.say(
        [call(ReplayClass.SAFE, f'{{"a": "{"y" * 380}{secret}{"z" * 900}"}}')], "done"
    )
    harness.say("go")
    await harness.sent(1)
    (row,) = await audit_rows(harness)
    assert row.words is not None
    assert "s3cret" not in row.words["arguments"]
    assert row.words["arguments"].endswith("… (1,356 characters)")


async def test_an_approval_its_answer_and_its_standing_rule_are_audited(
    approval_harness: ApprovalHarness, call: Call
) -> None:
    """J3: the question, the approver, the scope, and the rule that allowed the next call."""
    approval_harness.model.say(
        [call("shell", RM)], "done", [call("shell", RM), call("shell", LS)], "again"
    )
    approval_harness.say("clean up")
    (approval,) = await approval_harness.pending_approvals()
    answer = ApprovalResponse(approved=True, scope=ApprovalScope.SESSION)
    await approval_harness.gateway.approvals.decide(approval.id, answer)
    await approval_harness.sent(2)
    approval_harness.say("once more")
    await approval_harness.sent(3)
    asked, ended, given, ran, standing, harmless = await audit_rows(approval_harness)
    assert (asked.kind, asked.actor, asked.outcome) == ("approval.asked", ANN, "asked")
    assert asked.words == {
        "command": "rm -rf build",
        "why": "It deletes files.",
        "sha256": sha256(b"rm -rf build").hexdigest(),
    }
    assert (ended.kind, ended.actor, ended.outcome) == ("approval.ended", OPERATOR, "approved")
    assert ended.facts["scope"] == "session"
    assert (given.kind, given.actor, given.subject) == ("permission.given", OPERATOR, "delete")
    assert ran.facts["allowed"] == "approved" and ran.facts["by"] == OPERATOR
    assert ran.facts["approval"] == asked.facts["approval"] == ended.facts["approval"]
    assert standing.facts["allowed"] == f"standing {given.facts['permission']}"
    assert harmless.facts["allowed"] == "harmless"
    approval_harness.say("/approvals revoke 1")
    await approval_harness.sent(4)
    (revoked,) = await audit_rows(approval_harness, "permission.revoked")
    assert (revoked.actor, revoked.subject) == (ANN, "delete")


async def test_a_denial_in_the_chat_and_a_withdrawn_approval_are_audited(
    approval_harness: ApprovalHarness, call: Call
) -> None:
    approval_harness.model.say([call("shell", RM)], "as you wish", [call("shell", RM)])
    approval_harness.say("clean up")
    await approval_harness.pending_approvals()
    approval_harness.say("/deny not today")
    await approval_harness.sent(3)
    approval_harness.say("do it")
    await approval_harness.pending_approvals()
    approval_harness.say("/stop")
    await approval_harness.sent(5)
    ends = [
        (row.actor, row.outcome) for row in await audit_rows(approval_harness, "approval.ended")
    ]
    assert ends == [(ANN, "denied"), (GATEWAY_ACTOR, ApprovalState.WITHDRAWN)]
    calls = [
        (row.outcome, row.facts["allowed"]) for row in await audit_rows(approval_harness, "tool")
    ]
    assert calls == [("refused", "no"), ("not_started", "no")]
    (stopped,) = await audit_rows(approval_harness, "turn.stopped")
    assert (stopped.actor, stopped.subject) == (ANN, stopped.turn_id)


async def test_a_stop_by_the_operator_is_audited_in_every_turn_state(
    approval_harness: ApprovalHarness, call: Call, until: Until
) -> None:
    """During a call, while it waits for an approval, and when a user of the chat stops it too."""
    held_tool, stop = (
        approval_harness.held_tools[ReplayClass.SAFE],
        approval_harness.gateway.force_stop.stop,
    )

    async def stopped() -> list[str]:
        return [row.actor for row in await audit_rows(approval_harness, "turn.stopped")]

    held_tool.go.clear()
    approval_harness.model.say([call(ReplayClass.SAFE)], [call("shell", RM)], [call("shell", RM)])
    approval_harness.say("look", chat="a")
    await held_tool.wait_until_started(1)
    (first,) = [row.id for row in await approval_harness.store.read(ListSessions(limit=9))]
    assert await stop(first, by=OPERATOR)
    assert await stopped() == [OPERATOR]
    approval_harness.say("clean up", chat="b")
    (approval,) = await approval_harness.pending_approvals()
    assert await stop(approval.asked_in, by=OPERATOR)
    assert await stopped() == [OPERATOR] * 2
    approval_harness.say("clean up", chat="c")
    (approval,) = await approval_harness.pending_approvals()
    lane = approval_harness.gateway.lanes.get(approval.asked_in)
    assert lane is not None
    approval_harness.say("/queue and then", chat="c")
    await until(lambda: bool(lane.mailbox))
    (row,) = lane.drop_waiting_messages()
    command = InboxEnd(inbox_id=row.id, state=InboxState.ANSWERED)
    assert lane.stop((), (), by=OPERATOR) and lane.stop((command,), ())
    await until(lambda: approval_harness.gateway.lanes.get(approval.asked_in) is None)
    assert await stopped() == [OPERATOR, OPERATOR, f"{ANN}, {OPERATOR}"]


async def test_a_call_interrupted_by_a_crash_is_audited_as_unknown(
    harness: GatewayHarness, call: Call
) -> None:
    """H2: the one row says that the outcome is unknown."""
    held_tool = harness.held_tools[ReplayClass.NEVER]
    held_tool.go.clear()
    harness.model.say([call(ReplayClass.NEVER)], "checked")
    harness.say("pull it")
    await held_tool.wait_until_started(1)
    await harness.die()
    await harness.start()
    await harness.sent(1)
    (row,) = await audit_rows(harness, "tool")
    assert (row.outcome, row.actor) == ("unknown", ANN)


async def test_every_commit_has_a_result_together_with_its_audit_row(
    harness: GatewayHarness, call: Call, tmp_path: Path
) -> None:
    """K2: no image of the file, after any commit, has one without the other."""
    images: list[Path] = []

    def take(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_COMMIT:
            image = tmp_path / f"image{len(images)}" / "state.db"
            image.parent.mkdir()
            implementation().copy_durable(harness.path, image)
            images.append(image)

    await harness.stop()
    harness.open_store = lambda path: open_store(path, crash=take)
    await harness.start()
    harness.model.say([call(ReplayClass.SAFE), call(ReplayClass.NEVER)], "done")
    harness.say("go")
    await harness.sent(1)
    await harness.stop()
    counted = set()
    for image in images:
        with implementation().stored_rows(image) as rows:
            audit = rows.table("audit")
            assert list(audit_violations(rows.table("steps"), audit)) == []
            counted.add(len(audit))
    assert {0, 2} <= counted
    await harness.start()


async def test_audit_rows_cannot_be_changed_or_deleted(harness: GatewayHarness) -> None:
    for number in range(3):
        await harness.store.write(RecordAudit(entry=audit_entry(number)))
    for statement in (
        "UPDATE audit SET actor = 'nobody'",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 1",
        "UPDATE audit_words SET body = ''",
        "DELETE FROM audit_words",
    ):
        with pytest.raises(StoreError, match="audit"):
            await harness.store._submit(partial(_run, statement=statement))
    assert len(await audit_rows(harness)) == 3


async def test_actor_names_contain_no_separator_and_are_truncated(harness: GatewayHarness) -> None:
    """A webhook client may give any user id."""
    source = Source(platform="webhook", chat_id="c", user_id=f"eve, {OPERATOR}")
    named = actor_of(Inbound(source=source, event_id="e", message_id="m", text="hi"))
    assert named == f"webhook:default:eve,{OPERATOR}"
    await harness.store.write(
        RecordAudit(entry=msgspec.structs.replace(audit_entry(1), actor="x" * 9999))
    )
    (row,) = await audit_rows(harness)
    assert len(row.actor) == 1000


async def test_the_owner_is_one_actor_on_every_platform(harness: GatewayHarness) -> None:
    """A filter for the operator also finds what was requested on the page."""
    for actor in ("web:default:owner", "api:default:me", OPERATOR, ANN):
        await harness.store.write(
            RecordAudit(entry=msgspec.structs.replace(audit_entry(1), actor=actor))
        )
    assert [row.actor for row in await audit_rows(harness)] == [OPERATOR, OPERATOR, OPERATOR, ANN]
    assert (await harness.store.read(VerifyAudit())).broken == ()


async def test_pruning_removes_old_audit_rows_and_the_chain_stays_valid(
    harness: GatewayHarness,
) -> None:
    for number in range(5):
        await harness.store.write(RecordAudit(entry=audit_entry(number)))
    assert await harness.store.write(PruneAudit(before=2.5, at=9.0)) == 3
    assert await harness.store.write(PruneAudit(before=2.5, at=9.0)) == 0
    left = await audit_rows(harness)
    assert [row.seq for row in left] == [4, 5, 6]
    assert (left[-1].kind, left[-1].facts) == ("audit.pruned", {"rows": 3, "to": 3})
    found = await harness.store.read(VerifyAudit())
    assert (found.broken, found.rows, found.first, found.head) == ((), 3, 4, left[-1].hash)
    assert await harness.store.write(PruneAudit(before=9.5, at=10.0)) == 3
    await harness.store.write(RecordAudit(entry=audit_entry(11)))
    found = await harness.store.read(VerifyAudit())
    assert (found.broken, found.rows, found.first) == ((), 2, 7)


async def test_verifying_the_chain_during_pruning_finds_no_gap(
    harness: GatewayHarness,
) -> None:
    for number in range(5):
        await harness.store.write(RecordAudit(entry=audit_entry(number)))
    await harness.store.write(PruneAudit(before=2.5, at=9.0))
    begun = partial(
        audit.verify_chain, behind=AuditChainLink(seq=1, hash=b"of a row that is gone"), limit=9
    )
    assert (await harness.store._read(begun)).broken == ()


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        (
            "UPDATE audit SET actor = 'nobody' WHERE seq = 2",
            "row 2 was changed after it was written",
        ),
        ("DELETE FROM audit WHERE seq = 2", "rows 2 to 2 are missing"),
        ("UPDATE audit_words SET body = '{}' WHERE seq = 2", "the words of row 2"),
        (
            "INSERT INTO audit_pruned SELECT 1, seq, hash FROM audit WHERE seq = 2;"
            " DELETE FROM audit WHERE seq <= 2",
            "rows up to 2 are gone, and no row tells of it",
        ),
    ],
)
async def test_tampering_past_the_triggers_is_detected(
    harness: GatewayHarness, tampering: str, found: str
) -> None:
    for number in range(3):
        await harness.store.write(RecordAudit(entry=audit_entry(number)))
    await harness.store._submit(partial(_tamper, statement=tampering))
    (broken,) = (await harness.store.read(VerifyAudit())).broken
    assert broken.startswith(found)


def _run(cursor: apsw.Cursor, statement: str) -> None:
    cursor.execute(statement)


def _tamper(cursor: apsw.Cursor, statement: str) -> None:
    triggers = cursor.execute(
        "SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND name GLOB 'audit*'"
    ).fetchall()
    for (name,) in triggers:
        cursor.execute(f"DROP TRIGGER main.{name}")
    cursor.execute(statement)


async def test_a_deleted_session_loses_its_audited_text_and_keeps_its_rows(
    harness: GatewayHarness, call: Call
) -> None:
    harness.model.say([call(ReplayClass.SAFE, '{"for": "quahogwhelk"}')], "found")
    harness.say("look")
    await harness.sent(1)
    gateway, session = harness.gateway, await harness.only_session()
    await gateway.delete_session(session, by=OPERATOR)
    ran, deleted = await audit_rows(harness)
    assert (ran.words, ran.forgotten, ran.session_id) == (None, True, session)
    assert (deleted.kind, deleted.actor) == ("session.deleted", OPERATOR)
    found = await harness.store.read(VerifyAudit())
    assert (found.broken, found.forgotten) == ((), 1)


async def test_audit_rows_can_be_filtered(harness: GatewayHarness) -> None:
    for number in (1, 2, 3):
        words = {"command": f"sleep {number}", "why": f"Ärger {number}"}
        await harness.store.write(
            RecordAudit(entry=msgspec.structs.replace(audit_entry(number), words=words))
        )
    for filter_, found in (
        (AuditFilter(), [3, 2, 1]),
        (AuditFilter(kind="process"), [3, 2, 1]),
        (AuditFilter(kind="process.killed", before=3), [2, 1]),
        (AuditFilter(kind="pro"), []),
        (AuditFilter(kind="audit"), []),
        (AuditFilter(after=1), [2, 3]),
        (AuditFilter(since=2.0), [3, 2]),
        (AuditFilter(actor="OPERA", text="Ärger 2"), [2]),
        (AuditFilter(session="s", kind="process"), []),
        (AuditFilter(text="SLEEP 3"), [3]),
    ):
        found_rows = await harness.store.read(ListAudit(where=filter_, limit=10))
        assert [row.seq for row in found_rows] == found, filter_


async def test_a_failed_write_leaves_no_audit_row(harness: GatewayHarness) -> None:
    """K2: the row is undone with the write that it belongs to."""
    store, entry = harness.store, audit_entry(1)
    with pytest.raises(StoreError):
        await store.write(RenameSession(session_id="none-such", title="x"), audit=entry)  # type: ignore[arg-type]  # an id is a str
    assert not await store.write(SuspendSession(session_id="none-such"), audit=entry)  # type: ignore[arg-type]  # as above
    assert await audit_rows(harness) == []


async def test_operator_actions_in_the_chat_of_a_user_are_audited_as_the_operators(
    harness: GatewayHarness,
) -> None:
    harness.model.say("hello", "as you wish")
    harness.say("hi")
    await harness.sent(1)
    session = await harness.only_session()
    await send_as_operator(harness, session, "say it politely")
    await harness.sent(2)
    await send_as_operator(harness, session, "/title polite", "op2")
    await harness.sent(3)
    spoken, typed, command = await audit_rows(harness)
    assert {row.actor for row in (spoken, typed, command)} == {OPERATOR}
    assert (spoken.kind, spoken.words) == ("message.spoken", {"text": "say it politely"})
    assert (typed.kind, command.kind, command.subject) == (
        "message.spoken",
        "command.given",
        "/title",
    )
    assert command.words == {"text": "/title polite"}


async def test_refusals_are_audited_up_to_a_limit_of_unknown_senders(
    harness: GatewayHarness,
) -> None:
    """Law 12: refused senders are named; a flood of them does not fill the disk."""
    harness.say("/restart")
    await harness.sent(1)
    (refused,) = await audit_rows(harness)
    assert (refused.kind, refused.actor, refused.subject, refused.words) == (
        "refused.command",
        ANN,
        "/restart",
        None,
    )
    await harness.stop()
    harness.settings = msgspec.structs.replace(
        harness.settings, platforms={"simulated": PlatformSettings(allow=("ann",), pairing=False)}
    )
    await harness.start()
    for number in range(MAX_ROWS + 5):
        with pytest.raises(NotAllowed):
            await harness.gateway.intake.accept(
                unknown_sender_message(harness, f"stranger{number}")
            )
    known = await audit_rows(harness, "refused.stranger")
    assert len(known) == MAX_ROWS
    assert known[-1].facts == {"others_not_listed": True}


def unknown_sender_message(harness: GatewayHarness, user: str) -> Inbound:
    source = Source(platform="simulated", chat_id=user, user_id=user)
    name = harness.new_id("event")
    return Inbound(source=source, event_id=name, message_id=name, text="hi")


async def test_account_changes_messages_and_gateway_stops_are_audited(
    harness: GatewayHarness, until: Until
) -> None:
    await harness.gateway.accounts.pause("simulated", "default")
    await harness.gateway.accounts.resume("simulated", "default")
    to = Address(platform="simulated", account="default", chat_id="home")
    await harness.gateway.proactive_sender.enqueue(
        ProactiveSendRequest(id=DeliveryId("d1"), to=to, text="news")
    )
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.PAGE, at=5.0)
    for parked in (0, 1):
        await harness.store.write(
            RecordStop(row=StopRow(id="r1", order=order, version="1", parked=parked))
        )
    found = [(row.kind, row.actor, row.subject) for row in await audit_rows(harness)]
    assert found == [
        ("account.paused", OPERATOR, "simulated:default"),
        ("account.resumed", OPERATOR, "simulated:default"),
        ("message.sent", OPERATOR, "simulated:default:home"),
        ("gateway.left", OPERATOR, "restart"),
    ]


def audit_entry(number: int) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind.PROCESS_KILLED,
        actor=OPERATOR,
        at=float(number),
        subject=f"p{number}",
        words={"command": f"sleep {number}"},
    )

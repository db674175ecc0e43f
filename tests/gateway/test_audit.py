"""The audit: who asked, who allowed it, what ran with what effect, in the commit of the thing."""

import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.faults.audit_checks import breaches
from tests.support.approvals import LS, RM, ApprovalHarness
from tests.support.audit_rows import ANN, rows
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.operator_messages import said
from tests.support.store_file import open_read_only

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
from holdfast.core.secrets import Secret
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.approvals.service import ApprovalResponse
from holdfast.gateway.inbound.access import MAX_ROWS
from holdfast.gateway.notify.proactive import ProactiveSendRequest
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions import teardown
from holdfast.store.sqlite.reads import audit
from holdfast.store.sqlite.store import SqliteStore


async def kinds(harness: GatewayHarness) -> list[str]:
    return [row.kind for row in await rows(harness)]


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[ApprovalHarness]:
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
    assert await rows(harness) == []
    harness.say("look for crabs")
    await harness.sent(2)
    (row,) = await rows(harness)
    assert (row.kind, row.actor, row.subject, row.outcome) == ("tool.call", ANN, "safe", "ok")
    assert row.session_id == await harness.only_session() and row.turn_id is not None
    assert row.words == {"arguments": '{"for": "crabs"}'}
    assert row.facts["allowed"] == "without asking"


async def test_a_steering_user_is_an_actor_of_the_later_calls(
    tmp_path: Path, call: Call, until: Until
) -> None:
    """Also where the one who began it is called by the same letters."""
    harness = GatewayHarness(tmp_path / "state.db")
    people = PlatformSettings(allow=("operator",))
    harness.settings = Settings(platforms={"simulated": people})
    await harness.start()
    lever = harness.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    harness.model.say([call(ReplayClass.SAFE)], [call(ReplayClass.SAFE)], "done")
    harness.say("paint it", user="operator")
    await lever.wait_until_started(1)
    session_id = await harness.only_session()
    await said(harness, session_id, "/steer in green")
    lane = harness.gateway.lanes.get(session_id)
    await until(
        lambda: (
            lane is not None and lane.current_turn is not None and bool(lane.current_turn.steers)
        )
    )
    lever.go.set()
    await harness.sent(1)
    first, second = await rows(harness, "tool")
    assert first.actor == "simulated:default:operator"
    assert second.actor == f"{first.actor}, {OPERATOR}"
    await harness.stop()


async def test_the_name_of_an_unknown_tool_is_stored_as_text_of_the_session(
    harness: GatewayHarness, call: Call
) -> None:
    """And goes with the session, whatever was made up as its name."""
    named = msgspec.structs.replace(call(ReplayClass.SAFE), name="my name is Ann " * 90)
    harness.model.say([named], "done")
    harness.say("go")
    await harness.sent(1)
    (row,) = await rows(harness)
    assert (row.kind, row.subject) == ("tool.call", "")
    assert row.words is not None and row.words["tool"].startswith("my name is Ann")


async def test_audited_text_is_truncated_and_redacted(harness: GatewayHarness, call: Call) -> None:
    """Law 13: also where the cut would have left half of one."""
    await harness.stop()
    secret = "s3cret-" + "x" * 60
    redact = Redaction([Secret(secret)])
    harness.open_store = lambda path: SqliteStore(path, redact=redact)
    await harness.start()
    harness.model.say(
        [call(ReplayClass.SAFE, f'{{"a": "{"y" * 380}{secret}{"z" * 900}"}}')], "done"
    )
    harness.say("go")
    await harness.sent(1)
    (row,) = await rows(harness)
    assert row.words is not None
    assert "s3cret" not in row.words["arguments"]
    assert row.words["arguments"].endswith("… (1,356 characters)")


async def test_an_approval_its_answer_and_its_standing_rule_are_audited(
    asking: ApprovalHarness, call: Call
) -> None:
    """J3: who was asked, who said so, how far it goes, and by what the next one ran."""
    asking.model.say([call("shell", RM)], "done", [call("shell", RM), call("shell", LS)], "again")
    asking.say("clean up")
    (approval,) = await asking.asked()
    answer = ApprovalResponse(approved=True, scope=ApprovalScope.SESSION)
    await asking.gateway.approvals.decide(approval.id, answer)
    await asking.sent(2)
    asking.say("once more")
    await asking.sent(3)
    asked, ended, given, ran, standing, harmless = await rows(asking)
    assert (asked.kind, asked.actor, asked.outcome) == ("approval.asked", ANN, "asked")
    assert asked.words == {"command": "rm -rf build", "why": "It deletes files."}
    assert (ended.kind, ended.actor, ended.outcome) == ("approval.ended", OPERATOR, "approved")
    assert ended.facts["scope"] == "session"
    assert (given.kind, given.actor, given.subject) == ("permission.given", OPERATOR, "delete")
    assert ran.facts["allowed"] == "approved" and ran.facts["by"] == OPERATOR
    assert ran.facts["approval"] == asked.facts["approval"] == ended.facts["approval"]
    assert standing.facts["allowed"] == f"standing {given.facts['permission']}"
    assert harmless.facts["allowed"] == "harmless"
    asking.say("/approvals revoke 1")
    await asking.sent(4)
    (revoked,) = await rows(asking, "permission.revoked")
    assert (revoked.actor, revoked.subject) == (ANN, "delete")


async def test_a_denial_in_the_chat_and_a_withdrawn_approval_are_audited(
    asking: ApprovalHarness, call: Call
) -> None:
    asking.model.say([call("shell", RM)], "as you wish", [call("shell", RM)])
    asking.say("clean up")
    await asking.asked()
    asking.say("/deny not today")
    await asking.sent(3)
    asking.say("do it")
    await asking.asked()
    asking.say("/stop")
    await asking.sent(5)
    ends = [(row.actor, row.outcome) for row in await rows(asking, "approval.ended")]
    assert ends == [(ANN, "denied"), (GATEWAY_ACTOR, ApprovalState.WITHDRAWN)]
    calls = [(row.outcome, row.facts["allowed"]) for row in await rows(asking, "tool")]
    assert calls == [("refused", "no"), ("not_started", "no")]
    (stopped,) = await rows(asking, "turn.stopped")
    assert (stopped.actor, stopped.subject) == (ANN, stopped.turn_id)


async def test_a_stop_by_the_operator_is_audited_in_every_turn_state(
    asking: ApprovalHarness, call: Call, until: Until
) -> None:
    """At a call, while it waits for a person, and where somebody in the chat stops it as well."""
    lever, stop = asking.held_tools[ReplayClass.SAFE], asking.gateway.force_stop.stop

    async def stopped() -> list[str]:
        return [row.actor for row in await rows(asking, "turn.stopped")]

    lever.go.clear()
    asking.model.say([call(ReplayClass.SAFE)], [call("shell", RM)], [call("shell", RM)])
    asking.say("look", chat="a")
    await lever.wait_until_started(1)
    (first,) = [row.id for row in await asking.store.sessions(limit=9)]
    assert await stop(first, by=OPERATOR)
    assert await stopped() == [OPERATOR]
    asking.say("clean up", chat="b")
    (approval,) = await asking.asked()
    assert await stop(approval.asked_in, by=OPERATOR)
    assert await stopped() == [OPERATOR] * 2
    asking.say("clean up", chat="c")
    (approval,) = await asking.asked()
    lane = asking.gateway.lanes.get(approval.asked_in)
    assert lane is not None
    asking.say("/queue and then", chat="c")
    await until(lambda: bool(lane.mailbox))
    (row,) = lane.drop_waiting_messages()
    command = InboxEnd(inbox_id=row.id, state=InboxState.ANSWERED)
    assert lane.stop((), (), by=OPERATOR) and lane.stop((command,), ())
    await until(lambda: asking.gateway.lanes.get(approval.asked_in) is None)
    assert await stopped() == [OPERATOR, OPERATOR, f"{ANN}, {OPERATOR}"]


async def test_a_call_interrupted_by_a_crash_is_audited_as_unknown(
    harness: GatewayHarness, call: Call
) -> None:
    """H2: nobody knows, and that is what the one row says."""
    lever = harness.held_tools[ReplayClass.NEVER]
    lever.go.clear()
    harness.model.say([call(ReplayClass.NEVER)], "checked")
    harness.say("pull it")
    await lever.wait_until_started(1)
    await harness.die()
    await harness.start()
    await harness.sent(1)
    (row,) = await rows(harness, "tool")
    assert (row.outcome, row.actor) == ("unknown", ANN)


async def test_every_commit_has_a_result_together_with_its_audit_row(
    harness: GatewayHarness, call: Call, tmp_path: Path
) -> None:
    """K2: in the same commit: no image of the file, after whichever commit, has one alone."""
    images: list[Path] = []

    def take(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_COMMIT:
            image = tmp_path / f"image{len(images)}" / "state.db"
            image.parent.mkdir()
            for suffix in ("", "-wal"):
                shutil.copy(f"{harness.path}{suffix}", f"{image}{suffix}")
            images.append(image)

    await harness.stop()
    harness.open_store = lambda path: SqliteStore(path, crash=take)
    await harness.start()
    harness.model.say([call(ReplayClass.SAFE), call(ReplayClass.NEVER)], "done")
    harness.say("go")
    await harness.sent(1)
    await harness.stop()
    counted = set()
    for image in images:
        with open_read_only(image) as db:
            assert list(breaches(db)) == []
            counted.add(db.execute("SELECT count(*) FROM audit").get)
    assert {0, 2} <= counted
    await harness.start()


async def test_audit_rows_cannot_be_changed_or_deleted(harness: GatewayHarness) -> None:
    for number in range(3):
        await harness.store.record_audit(act(number))
    for statement in (
        "UPDATE audit SET actor = 'nobody'",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 1",
        "UPDATE audit_words SET body = ''",
        "DELETE FROM audit_words",
    ):
        with pytest.raises(StoreError, match="audit"):
            await harness.store._submit(partial(_run, statement=statement))
    assert len(await rows(harness)) == 3


async def test_actor_names_contain_no_separator_and_are_truncated(harness: GatewayHarness) -> None:
    """Where a program says who writes, it may say anything."""
    source = Source(platform="webhook", chat_id="c", user_id=f"eve, {OPERATOR}")
    named = actor_of(Inbound(source=source, event_id="e", message_id="m", text="hi"))
    assert named == f"webhook:default:eve,{OPERATOR}"
    await harness.store.record_audit(msgspec.structs.replace(act(1), actor="x" * 9999))
    (row,) = await rows(harness)
    assert len(row.actor) == 1000


async def test_the_owner_is_one_actor_on_every_platform(harness: GatewayHarness) -> None:
    """Whoever looks for the operator finds what was asked on the page, too."""
    for actor in ("web:default:owner", "api:default:me", OPERATOR, ANN):
        await harness.store.record_audit(msgspec.structs.replace(act(1), actor=actor))
    assert [row.actor for row in await rows(harness)] == [OPERATOR, OPERATOR, OPERATOR, ANN]
    assert (await harness.store.verify_audit()).broken == ()


async def test_pruning_removes_old_audit_rows_and_the_chain_stays_valid(
    harness: GatewayHarness,
) -> None:
    for number in range(5):
        await harness.store.record_audit(act(number))
    assert await harness.store.prune_audit(before=2.5, at=9.0) == 3
    assert await harness.store.prune_audit(before=2.5, at=9.0) == 0
    left = await rows(harness)
    assert [row.seq for row in left] == [4, 5, 6]
    assert (left[-1].kind, left[-1].facts) == ("audit.pruned", {"rows": 3, "to": 3})
    found = await harness.store.verify_audit()
    assert (found.broken, found.rows, found.first, found.head) == ((), 3, 4, left[-1].hash)
    assert await harness.store.prune_audit(before=9.5, at=10.0) == 3
    await harness.store.record_audit(act(11))
    found = await harness.store.verify_audit()
    assert (found.broken, found.rows, found.first) == ((), 2, 7)


async def test_verifying_the_chain_during_pruning_finds_no_gap(
    harness: GatewayHarness,
) -> None:
    for number in range(5):
        await harness.store.record_audit(act(number))
    await harness.store.prune_audit(before=2.5, at=9.0)
    begun = partial(
        audit.verify_chain, behind=AuditChainLink(seq=1, hash=b"of a row that is gone"), limit=9
    )
    assert (await harness.store._read(begun)).broken == ()


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("UPDATE audit SET actor = 'nobody' WHERE seq = 2", "row 2 is not as it was written"),
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
        await harness.store.record_audit(act(number))
    await harness.store._submit(partial(_tamper, statement=tampering))
    (broken,) = (await harness.store.verify_audit()).broken
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
    house, lanes = gateway.services, gateway.lanes
    await teardown.delete_session(house, lanes, gateway.teardown, session, by=OPERATOR)
    ran, deleted = await rows(harness)
    assert (ran.words, ran.forgotten, ran.session_id) == (None, True, session)
    assert (deleted.kind, deleted.actor) == ("session.deleted", OPERATOR)
    found = await harness.store.verify_audit()
    assert (found.broken, found.forgotten) == ((), 1)


async def test_audit_rows_can_be_filtered(harness: GatewayHarness) -> None:
    for number in (1, 2, 3):
        words = {"command": f"sleep {number}", "why": f"Ärger {number}"}
        await harness.store.record_audit(msgspec.structs.replace(act(number), words=words))
    for wanted, found in (
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
        rows = await harness.store.audit(wanted, limit=10)
        assert [row.seq for row in rows] == found, wanted


async def test_a_failed_write_leaves_no_audit_row(harness: GatewayHarness) -> None:
    """K2: the row is undone with the write that it belongs to."""
    acting = harness.store.audited(act(1))
    with pytest.raises(StoreError):
        await acting.rename_session("none-such", "x")  # type: ignore[arg-type]  # an id is a str
    assert not await acting.suspend_one("none-such")  # type: ignore[arg-type]  # as above
    assert await rows(harness) == []


async def test_operator_actions_in_the_chat_of_a_user_are_audited_as_the_operators(
    harness: GatewayHarness,
) -> None:
    harness.model.say("hello", "as you wish")
    harness.say("hi")
    await harness.sent(1)
    session = await harness.only_session()
    await said(harness, session, "say it politely")
    await harness.sent(2)
    await said(harness, session, "/title polite", "op2")
    await harness.sent(3)
    spoken, typed, command = await rows(harness)
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
    """Law 12: whoever may not is named; a flood of them does not fill the disk."""
    harness.say("/restart")
    await harness.sent(1)
    (refused,) = await rows(harness)
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
            await harness.gateway.intake.accept(stranger(harness, f"stranger{number}"))
    known = await rows(harness, "refused.stranger")
    assert len(known) == MAX_ROWS
    assert known[-1].facts == {"others_not_listed": True}


def stranger(harness: GatewayHarness, user: str) -> Inbound:
    source = Source(platform="simulated", chat_id=user, user_id=user)
    name = harness.new_id("event")
    return Inbound(source=source, event_id=name, message_id=name, text="hi")


async def test_account_changes_messages_and_gateway_stops_are_audited(
    harness: GatewayHarness, until: Until
) -> None:
    await harness.gateway.accounts.pause("simulated", "default")
    await harness.gateway.accounts.resume("simulated", "default")
    to = Address(platform="simulated", account="default", chat_id="home")
    await harness.gateway.services.proactive_sender.enqueue(
        ProactiveSendRequest(id=DeliveryId("d1"), to=to, text="news")
    )
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.PAGE, at=5.0)
    for parked in (0, 1):
        await harness.store.record_stop(StopRow(id="r1", order=order, version="1", parked=parked))
    told = [(row.kind, row.actor, row.subject) for row in await rows(harness)]
    assert told == [
        ("account.paused", OPERATOR, "simulated:default"),
        ("account.resumed", OPERATOR, "simulated:default"),
        ("message.sent", OPERATOR, "simulated:default:home"),
        ("gateway.left", OPERATOR, "restart"),
    ]


def act(number: int) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind.PROCESS_KILLED,
        actor=OPERATOR,
        at=float(number),
        subject=f"p{number}",
        words={"command": f"sleep {number}"},
    )

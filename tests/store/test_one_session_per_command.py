"""K2: each command names every session that it touches, so that sessions could be stored on many
machines. Nearly all touch one; those that lead a chat from one session to another name both."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from tests.support.approvals import HeldShell, PrefixJudge
from tests.support.conversation_models import PerConversationModel
from tests.support.deliveries import resend_delivery, wait_for_deliveries, wait_for_only_delivery
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until
from tests.support.memory_provider import RecordingMemoryProvider
from tests.support.operator_messages import send_as_operator
from tests.support.pairing import request_code
from tests.support.store_chat import ROUTE, SESSION, TURN, StoreChat
from tests.support.store_file import open_read_only
from tests.support.stores import each_store, implementation  # noqa: F401 - a fixture
from tests.support.tracking_store import (
    OF_THE_GATEWAY,
    OWNERS,
    SqliteTrackingStore,
    TrackingStore,
    wrong_writes,
)

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.core.config.settings import (
    DelegateSettings,
    JobSettings,
    PlatformSettings,
    Settings,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import PrincipalId, SessionId, SessionKey
from holdfast.core.jobs.job import JobChange, JobChangeKind, RunPlan
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxState
from holdfast.core.messages.outbox import (
    DeliveryState,
    FailureReport,
    ProactiveDelivery,
)
from holdfast.core.messages.source import Author, Source
from holdfast.core.messages.transcript import (
    CompactionMessage,
    NoteMessage,
    TranscriptRecord,
    UserMessage,
)
from holdfast.core.people.approval import (
    OPERATOR,
    Approval,
    ApprovalDecision,
    ApprovalRequest,
)
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind
from holdfast.core.people.memory import NoteEdit, OwnerId
from holdfast.core.people.pairing import PairingChange, RefusedMessage
from holdfast.core.ports import store_commands as c
from holdfast.core.ports.command import Command, account_scope
from holdfast.core.ports.store_queries import (
    GetInboxRow,
    ListApprovals,
    ListAudit,
    ListJobs,
    ListOpenTurns,
    ListSessions,
)
from holdfast.core.sessions.reset import ResetReason, SessionReset
from holdfast.core.sessions.session import CommandEffect, ImportedSession, ProcessRow, RunnerRow
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import BeginTurn, EndTurn, TurnRowState, Usage
from holdfast.gateway.approvals.service import ApprovalResponse
from holdfast.store.search.index import MESSAGE_COMMANDS
from holdfast.testing.scripted_model import ManualReply, ScriptedClient, ScriptedModel
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.service import ChatService


class Tracking:
    """Owns the stores that a test has opened."""

    def __init__(self) -> None:
        self.stores: list[TrackingStore] = []

    def open(self, path: Path) -> TrackingStore:
        self.stores.append(implementation().open_tracking(path))
        return self.stores[-1]

    def check(self, *expected: type[Command[Any]]) -> None:
        """These commands were written, all that were name their sessions, and the search index
        learns of those that change messages."""
        writes = [write for store in self.stores for write in store.tracked]
        assert {*expected} - {type(write.command) for write in writes} == set()
        assert wrong_writes(writes) == {}
        changed = [write for write in writes if any(row.table == "messages" for row in write.rows)]
        assert {type(write.command) for write in changed} <= {*MESSAGE_COMMANDS}


@pytest.fixture
def tracking() -> Tracking:
    return Tracking()


@pytest.fixture
async def harness(tmp_path: Path, tracking: Tracking) -> AsyncIterator[GatewayHarness]:
    """A gateway, not yet started, whose store tracks sessions."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.open_store = tracking.open
    yield harness
    await harness.stop()


async def answer(harness: GatewayHarness, text: str, **more: Any) -> str:
    """Say it, and return what is sent next."""
    number = len(harness.service.ledger().sent) + 1
    harness.say(text, **more)
    return (await harness.texts(number))[number - 1]


async def test_conversations_and_their_commands(
    harness: GatewayHarness, tracking: Tracking, call: Call, until: Until
) -> None:
    """K2: through approvals, chat commands, a crash and a deletion."""

    async def is_open() -> bool:
        return bool(await harness.store.read(ListOpenTurns()))

    harness.extra_tools, harness.judge = [HeldShell()], PrefixJudge()
    await harness.start()
    harness.model.say(
        [call(ReplayClass.SAFE)], "one", "two", [call("shell", '{"command": "rm -rf x"}')]
    )
    harness.say("hello")
    harness.say("hello", chat="other")
    await harness.sent(2)
    harness.say("clean up")
    await harness.sent(3)
    harness.model.say("done")
    harness.say("/approve")
    await harness.sent(5)
    for command in ("/fork", "/undo", "/title better", "/new", "/sessions", "/busy queue", "/stop"):
        await answer(harness, command)
    harness.say("hello again")
    await harness.model.wait_for_request(6)
    await until(is_open)  # the model is called while the begin of the turn is being committed
    await harness.die()
    harness.model.say("again")
    await harness.start()
    await harness.sent(13)
    gateway = harness.gateway
    for session in await harness.store.read(ListSessions(limit=10)):
        await gateway.delete_session(session.id)
    tracking.check(
        *(c.AcceptMessage, BeginTurn, EndTurn, c.ResumeTurn, CommandEffect, ApprovalRequest),
        *(c.RecordReply, c.RecordCallsStarted, c.RecordCallResult, c.BeginAttempt),
        *(c.SettleDelivery, c.DeleteSession, c.ForgetMessageChanges),
    )
    assert all(write.command for store in tracking.stores for write in store.tracked)


async def test_the_notice_of_a_stop_that_suspends_its_session(
    harness: GatewayHarness, tracking: Tracking
) -> None:
    """K2: it is a commit of its own, and names the session by its delivery alone."""
    await harness.start()
    harness.say("work")
    await harness.model.wait_for_request(1)
    harness.say("/stop")
    await harness.sent(1)
    harness.say("/stop")
    assert "/resume" in (await harness.texts(3))[2]
    tracking.check(CommandEffect, c.SuspendSession)


async def test_the_end_of_a_turn_that_has_not_begun(
    harness: GatewayHarness, tracking: Tracking
) -> None:
    """K2: its messages end in the session that it would have run in, as those of other turns."""
    harness.model = model = LeasedOnceModel()
    await harness.start()
    model.say("hello")
    session = (await harness.end_of(await harness.accept("hi"))).session_id
    harness.gateway.cache.clear()
    accepted = await harness.accept("again")
    ended = await harness.end_of(accepted)
    assert (ended.state, ended.session_id) == (InboxState.FAILED, session)
    row = await harness.store.read(GetInboxRow(inbox_id=accepted.row.id))
    assert row is not None and row.session_id == session
    tracking.check(CommandEffect)


class LeasedOnceModel(ScriptedModel):
    """A model of which only the first agent gets a client."""

    def lease(self, override: str | None = None) -> ScriptedClient:
        if self.requests:
            raise HoldfastError("the model is away")
        return super().lease(override)


async def test_messages_that_meet_a_running_turn_and_a_suspended_session(
    harness: GatewayHarness, tracking: Tracking, call: Call
) -> None:
    """K2: a busy decision, a steer, and a chat that is moved to a new session."""
    await harness.start()
    tool = harness.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    harness.model.say([call("safe")], "faster it is", "fresh")
    first = await harness.accept("work")
    await tool.wait_until_started(1)
    await harness.accept("faster", busy_mode=BusyMode.STEER)
    tool.go.set()
    assert (await harness.end_of(first)).text == "faster it is"
    session = await harness.only_session()
    await harness.store.write(c.SuspendSession(session_id=session))
    assert (await harness.end_of(await harness.accept("go on"))).session_id != session
    tracking.check(c.RecordBusyDecision, c.RecordSteer, c.SuspendSession, BeginTurn)


async def test_streams_parts_and_deliveries_that_are_sent_again(
    harness: GatewayHarness, tracking: Tracking
) -> None:
    """K2: each row of the outbox has the session of its reply."""
    harness.service = ChatService(edit=True, edit_interval=0.01, max_length=20)
    await harness.start()
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me a long story")
    await harness.model.wait_for_request(1)
    for word in ("once upon a time", " there was", " a very long reply", " in three parts"):
        reply.say(word)
        await asyncio.sleep(0.05)
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say("short")
    harness.say("again")
    failed = await wait_for_only_delivery(harness, DeliveryState.FAILED)
    await resend_delivery(harness, failed)
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)
    tracking.check(c.BeginStream, c.BeginPart, c.SettlePart, c.SettleDelivery, c.RequeueDelivery)


async def test_approvals_that_end_outside_their_chat(
    harness: GatewayHarness, tracking: Tracking, call: Call
) -> None:
    """K2: by an operator, and by their deadline."""
    harness.extra_tools, harness.judge = [HeldShell()], PrefixJudge()
    await harness.start()
    command = call("shell", '{"command": "rm -rf x"}')
    harness.model.say([command], "as you wish")
    accepted = await harness.accept("clean up")
    approval = await wait_for_approval(harness)
    assert await harness.gateway.approvals.decide(approval.id, ApprovalResponse(approved=False))
    await harness.end_of(accepted)
    await harness.stop()
    harness.settings = msgspec.structs.replace(
        harness.settings,
        approvals=msgspec.structs.replace(harness.settings.approvals, timeout=0.05),
    )
    await harness.start()
    harness.model.say([call("shell", '{"command": "rm -rf y"}')], "then not")
    assert (await harness.end_of(await harness.accept("clean up"))).text == "then not"
    tracking.check(ApprovalRequest, ApprovalDecision)


async def wait_for_approval(harness: GatewayHarness) -> Approval:
    """Stored, and known to the gateway, which learns of it after the commit."""
    async with asyncio.timeout(20):
        while True:
            for approval in await harness.store.read(ListApprovals(limit=5, pending=True)):
                if harness.gateway.approvals.find(approval.id) is not None:
                    return approval
            await asyncio.sleep(0.005)


async def test_memory_and_subagents(
    harness: GatewayHarness, tracking: Tracking, call: Call, until: Until
) -> None:
    """K2: a subagent has a session of its own, which its message names."""
    provider = RecordingMemoryProvider()
    model = PerConversationModel()
    harness.model, harness.memory, harness.with_notes = model, [provider], True
    harness.extra_tools = [DelegateTool(DelegateSettings())]
    await harness.start()
    model.model_for("count apples").say("seven apples")
    model.model_for("fruit").say(
        [call("delegate", '{"tasks": [{"task": "count apples"}]}')], "7 in all"
    )
    assert (await harness.end_of(await harness.accept("fruit"))).text == "7 in all"
    await until(lambda: bool(provider.calls_to("sync_turn")))
    await harness.end_of(await harness.accept("/new"))
    await until(lambda: bool(provider.calls_to("on_session_end")))
    owner = OwnerId("api:default:owner")
    await harness.store.write(
        NoteEdit(action="add", owner=owner, text="tea", max_chars=500, at=1.0)
    )
    tracking.check(c.EnableMemory, c.ClaimMemoryTurn, c.RequestMemoryEnd, NoteEdit)


async def test_pairing(harness: GatewayHarness, tracking: Tracking) -> None:
    """K2: a person who is let in, and the message that was refused before."""
    account = PlatformSettings(operators=("ann",), allow=("bob",))
    harness.settings = Settings(platforms={"simulated": account})
    await harness.start()
    code = await request_code(harness)
    await harness.gateway.pairing.approve(code, by=OPERATOR)
    await harness.sent(2)
    tracking.check(RefusedMessage, PairingChange)


async def test_jobs(harness: GatewayHarness, tracking: Tracking, until: Until) -> None:
    """K2: a run names the session that it continues, or opens one."""
    clock = ManualClock(1_800_000_000.0)
    harness.clock = clock
    harness.settings = msgspec.structs.replace(harness.settings, jobs=JobSettings(time_zone="UTC"))
    await harness.start()
    harness.model.say("hello", "looked", "looked here")
    await answer(harness, "hi")
    await answer(harness, '/cron add "in 1 minute" look')
    await answer(harness, '/cron add "in 2 minutes" session=here look here')
    for _ in range(2):
        clock.at += 60
        number = len(harness.service.ledger().sent) + 1
        harness.gateway.scheduler.wake()
        await harness.sent(number)
    (job, *_) = await harness.store.read(ListJobs(limit=9))
    change = JobChange(job_id=job.id, principal=job.principal, kind=JobChangeKind.PAUSE)
    await harness.store.write(change)
    await harness.store.write(c.SkipRuns(job_id=job.id, principal=job.principal, why="paused"))
    await harness.store.write(c.PruneRuns(before=clock.at))
    tracking.check(RunPlan, JobChange, c.SkipRuns, c.PruneRuns)


async def test_commands_of_a_session(tmp_path: Path, tracking: Tracking) -> None:
    """K2: written as the gateway writes them, in one conversation."""
    at, note, usage = 5.0, NoteMessage(text="cut"), Usage(input_tokens=1)
    session: dict[str, Any] = {"session_id": SESSION}
    turn: dict[str, Any] = {**session, "turn_id": TURN, "at": at}
    store = tracking.open(tmp_path / "state.db")
    async with store:
        chat = StoreChat(store)
        await chat.begin_turn(await chat.say())
        proactive = chat.reply(None, id="p", text="psst", turn="t")
        record = TranscriptRecord(
            seq=1, turn_id=None, message=UserMessage(text="old"), created_at=1.0
        )
        imported = ImportedSession(
            id=SessionId("i"), route=SessionKey("i"), title="i", records=(record,), at=at
        )
        commands: list[Command[Any]] = [
            c.RecordNote(**turn, message=note, usage=usage),
            c.RecordCompaction(
                **turn, message=CompactionMessage(text="short", covers=1), usage=usage
            ),
            c.ParkTurn(**turn),
            c.ContinueTurn(**turn),
            c.SavePrompt(**session, prompt="p", fingerprint="f"),
            c.AddAuxiliaryUsage(**session, task=AuxiliaryTask.TITLE, usage=usage),
            ProactiveDelivery(delivery=proactive, note=note, at=at),
            c.AddDeliveries(deliveries=[chat.reply(None, id="a", text="x")], at=at),
            EndTurn(**turn, state=TurnRowState.FAILED, suspend=True),
            c.OpenSession(session_id=SessionId("o"), route=SessionKey("o"), at=at),
            c.MarkResumePending(
                session_id=SessionId("o"), route=SessionKey("o"), reason="restart", at=at
            ),
            c.ClearResumePending(session_id=SessionId("o"), route=SessionKey("o")),
            c.OpenNewSession(
                session_id=SessionId("n"),
                route=SessionKey("o"),
                principal=PrincipalId("p"),
                reset=SessionReset(previous=SessionId("o"), reason=ResetReason.IDLE),
                at=at,
            ),
            c.RenameSession(**session, title="new"),
            c.ReplaceSessionTitle(**session, title="newer", expected="new"),
            c.SaveRunner(
                runner=RunnerRow(
                    **session, pid=7, start_time=9, outer_pid=6, sandboxed=True, started_at=at
                )
            ),
            c.SaveProcess(process=ProcessRow(**session, id="p1", command="x", started_at=at)),
            c.EndRunner(**session),
            c.ImportSession(imported=imported),
            c.ExpireSession(session_id=SessionId("i"), active_at=at, at=at + 1),
            c.EndSession(**session, at=at),
            c.RecordAudit(
                entry=AuditEntry(
                    kind=AuditKind.SESSION_RENAMED, actor="ann", at=at, session_id=SESSION
                )
            ),
            c.PruneInbox(before=at),
            c.PruneOutbox(before=at),
            c.PruneAudit(before=at, at=at),
        ]
        for command in commands:
            await store.write(command)
    tracking.check(*map(type, commands))


@pytest.mark.parametrize("command", [c.AddDeliveries, c.RecordReady])
async def test_deliveries_of_several_sessions(
    tmp_path: Path,
    tracking: Tracking,
    command: type[c.AddDeliveries] | type[c.RecordReady],
) -> None:
    """K2: a command that adds them names each session, in order; a delivery may have none."""
    sessions = (SessionId("one"), None, SessionId("two"), SessionId("one"))
    store = tracking.open(tmp_path / "state.db")
    async with store:
        chat = StoreChat(store)
        deliveries = [
            msgspec.structs.replace(chat.reply(None, id=f"d{n}", text="x"), session_id=session)
            for n, session in enumerate(sessions)
        ]
        for some in (deliveries, deliveries[1:2], []):
            new = [msgspec.structs.replace(each, id=f"{each.id}-{len(some)}") for each in some]
            await store.write(command(deliveries=new, at=5.0))
    tracking.check(command)
    scopes = [write.command.scope for write in store.tracked if write.command is not None]
    assert [scope.sessions for scope in scopes] == [("one", "two"), (), ()]
    account = account_scope("sim", "default")
    assert [scope.owners[-1:] for scope in scopes] == [(account,), (account,), ()]


async def test_a_report_about_a_failed_delivery(tmp_path: Path, tracking: Tracking) -> None:
    """K2: it names the session of the chat, and that of the agent that sent the file."""
    other = SessionId("o")
    store = tracking.open(tmp_path / "state.db")
    async with store:
        chat = StoreChat(store)
        await chat.begin_turn(await chat.say())
        await store.write(c.OpenSession(session_id=other, route=SessionKey("o"), at=1.0))
        failed = chat.reply(None, id="p", text="psst", turn="t")
        await store.write(c.AddDeliveries(deliveries=[failed], at=2.0))
        end = c.SettleDelivery(
            delivery_id=failed.id, scope=failed.scope, state=DeliveryState.FAILED, at=3.0
        )
        report = FailureReport(
            note=NoteMessage(text="it failed"),
            session_ids=(SESSION, other),
            notice=chat.reply(None, id="n", text="sorry"),
        )
        command = c.ReportFailedDelivery(end=end, report=report)
        await store.write(command)
    tracking.check(c.ReportFailedDelivery)
    assert command.scope.sessions == (SESSION, other)


async def test_a_message_of_an_operator_in_the_chat_of_a_user(
    harness: GatewayHarness, tracking: Tracking
) -> None:
    """K2: it names the session that the operator addressed, and is audited there."""
    await harness.start()
    harness.model.say("hello", "as you wish")
    await answer(harness, "hi")
    session = await harness.only_session()
    await send_as_operator(harness, session, "say it politely")
    await harness.sent(2)
    tracking.check()
    (row,) = await harness.store.read(
        ListAudit(where=AuditFilter(session=session, kind="message.spoken"), limit=9)
    )
    assert row.words == {"text": "say it politely"}


async def test_a_message_of_an_operator_to_a_session_that_was_deleted_meanwhile(
    tmp_path: Path, tracking: Tracking
) -> None:
    """K2: it is audited without its words, which no deletion would find any more."""
    source = Source(platform="sim", chat_id="c", user_id="u", author=Author.OPERATOR)
    inbound = Inbound(source=source, event_id="1", message_id="1", text="say it politely")
    store = tracking.open(tmp_path / "state.db")
    async with store:
        await store.write(
            c.AcceptMessage(
                inbound=inbound,
                route=ROUTE,
                principal=PrincipalId("p"),
                spoken_into=SessionId("deleted"),
                at=1.0,
            )
        )
        (row,) = await store.read(ListAudit(where=AuditFilter(session="deleted"), limit=9))
    assert row.words is None
    tracking.check(c.AcceptMessage)


async def test_commands_that_lead_a_chat_from_one_session_to_another(
    harness: GatewayHarness, tracking: Tracking
) -> None:
    """K2: they name both; also where the session before was suspended, or another chat has it."""
    await harness.start()
    harness.model.say("one", "two", "three", "four")
    for chat in ("a", "b"):
        await answer(harness, "hello", chat=chat)
    for command in ("/new", "/resume 1", "/fork copy", "/background count", "/model demo"):
        await answer(harness, command, chat="a")
    for session in await harness.store.read(ListSessions(limit=10)):
        await harness.store.write(c.SuspendSession(session_id=session.id))
    for command in ("/busy queue", "/new", "/background count", "/resume 1"):
        await answer(harness, command, chat="b")
    tracking.check(CommandEffect, c.SuspendSession)


async def test_commands_that_change_what_belongs_to_an_account_or_a_person(
    harness: GatewayHarness, tracking: Tracking, call: Call
) -> None:
    """K2: jobs, notes and standing approvals are a person's; a home channel, a quiet chat and a
    message without a session are an account's."""
    harness.extra_tools, harness.judge = [HeldShell()], PrefixJudge()
    account = PlatformSettings(operators=("ann",), allow=("ann", "bob"))
    harness.settings = msgspec.structs.replace(
        harness.settings, platforms={"simulated": account}, jobs=JobSettings(time_zone="UTC")
    )
    harness.with_notes = True
    await harness.start()
    for command in (
        *("/help", "/sethome", "/sethome off", "/quiet on", "/memory off", "/memory on"),
        *('/cron add "in 1 hour" look', "/cron stop 1", "/cron pause 1", "/cron remove 1"),
    ):
        await answer(harness, command)
    harness.model.say([call("shell", '{"command": "rm -rf x"}')], "done")
    await answer(harness, "clean up")
    number = len(harness.service.ledger().sent)
    harness.say("/approve always")
    await harness.sent(number + 2)
    await answer(harness, "/approvals revoke 1")
    tracking.check(CommandEffect)
    rows = {row for store in tracking.stores for write in store.tracked for row in write.rows}
    assert {row.owner.partition(":")[0] for row in rows} == {"session", "account", "person"}
    changed = {row.table for row in rows}
    assert changed >= {"homes", "quiet_chats", "notebooks", "jobs", "approval_rules", "inbox"}


async def test_a_write_of_another_account_or_person_is_found(tmp_path: Path) -> None:
    """K2: the check itself can fail."""

    def add_notebook(cursor: apsw.Cursor) -> None:
        cursor.execute("INSERT INTO notebooks (owner) VALUES ('person:bob')")

    def add_cursor(cursor: apsw.Cursor) -> None:
        cursor.execute("INSERT INTO cursors VALUES ('sim', 'b', 'offset', '1')")

    store = SqliteTrackingStore(tmp_path / "state.db")
    edit = NoteEdit(action="clear", owner=OwnerId("person:ann"), at=1.0)
    delivery = StoreChat(store).reply(None, text="x")
    added = c.AddDeliveries(deliveries=[msgspec.structs.replace(delivery, session_id=None)], at=1.0)
    async with store:
        await store._submit(add_notebook, edit)
        await store._submit(add_cursor, added)
    assert wrong_writes(store.tracked) == {"NoteEdit": {"notebooks"}, "AddDeliveries": {"cursors"}}


async def test_every_table_has_an_owner_or_is_the_gateways(tmp_path: Path) -> None:
    """K2: a new table needs a decision, in `tests/support/tracking_store.py`."""
    async with SqliteTrackingStore(tmp_path / "state.db"):
        pass
    with open_read_only(tmp_path / "state.db") as cursor:
        names = cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    tables = {str(name) for (name,) in names if not str(name).startswith("sqlite_")}
    assert OWNERS.keys() | OF_THE_GATEWAY == tables
    assert not OWNERS.keys() & OF_THE_GATEWAY


async def test_a_write_that_touches_two_sessions_or_names_none_is_found(
    tmp_path: Path, tracking: Tracking
) -> None:
    """K2: the check itself can fail."""

    def rename_all(cursor: apsw.Cursor) -> None:
        cursor.execute("UPDATE sessions SET title = 'x'")

    def rename_one(cursor: apsw.Cursor) -> None:
        cursor.execute("UPDATE sessions SET title = 'x' WHERE id = 'one'")

    store = SqliteTrackingStore(tmp_path / "state.db")
    tracking.stores.append(store)
    async with store:
        for name in ("one", "two"):
            await store.write(
                c.OpenSession(session_id=SessionId(name), route=SessionKey(name), at=1.0)
            )
        tracking.check(c.OpenSession)
        for work, session in ((rename_all, "one"), (rename_one, "two")):
            command = c.RenameSession(session_id=SessionId(session), title="x")
            await store._submit(work, command)
            assert wrong_writes(store.tracked[-1:]) == {"RenameSession": {"sessions"}}
        await store._submit(rename_one, c.RenameSession(session_id=SessionId("one"), title="x"))
        assert wrong_writes(store.tracked[-1:]) == {}

"""The store's port: sessions, their routes and transcripts, and what they have used."""

from typing import Any

import msgspec
import pytest
from tests.support.store_chat import ADDRESS, ROUTE, SESSION, TURN, StoreChat

from holdfast.core.errors import StoreError
from holdfast.core.ids import PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.outbox import (
    DeliveryKind,
    DeliveryState,
    FailureReport,
    NewDelivery,
    PendingFile,
    ProactiveDelivery,
)
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    TranscriptRecord,
    UserMessage,
)
from holdfast.core.ports import store_commands as c
from holdfast.core.ports import store_queries as q
from holdfast.core.ports.store import Store
from holdfast.core.sessions.reset import ExpiringSession, ResetReason, SessionReset
from holdfast.core.sessions.search import SearchQuery, SearchScope
from holdfast.core.sessions.session import (
    CommandEffect,
    ForkEffect,
    ImportedSession,
    SessionFilter,
    SessionRow,
    UndoEffect,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.timeline import ModelUsage
from holdfast.core.turns.turn import NO_USAGE, TurnRowState, Usage

ANN = PrincipalId("ann")


async def row_of(store: Store, session: str = SESSION) -> SessionRow:
    found = await store.read(q.GetSession(session_id=SessionId(session)))
    assert found is not None
    return found


async def open_session(store: Store, name: str, *, at: float = 1.0) -> None:
    """A session with a route of its own, which has its name."""
    opened = await store.write(
        c.OpenSession(
            session_id=SessionId(name), route=SessionKey(f"sim:default:dm:{name}:"), at=at
        )
    )
    assert opened == name


async def exchange(
    chat: StoreChat,
    turn: str,
    said: str = "hi",
    answered: str = "hello",
    *,
    usage: Usage = NO_USAGE,
    **begin: Any,
) -> None:
    """A turn of the session that begins and is answered."""
    row = await chat.say(said)
    await chat.begin_turn(row, turn=turn, **begin)
    reply = AssistantMessage(text=answered, model="m")
    end = chat.turn_end(row, turn=turn, messages=(reply,), usage=usage)
    await chat.store.write(msgspec.structs.replace(end, at=begin.get("at", 2.0)))


async def test_opening_the_session_of_a_route_finds_the_one_that_is_there(store: Store) -> None:
    """G4: a second request opens nothing."""
    await open_session(store, "one")
    again = c.OpenSession(
        session_id=SessionId("two"), route=SessionKey("sim:default:dm:one:"), at=2.0
    )
    assert await store.write(again) == "one"
    assert await store.read(q.GetSession(session_id=SessionId("two"))) is None
    await store.write(c.EndSession(session_id=SessionId("one"), at=3.0))
    assert (await row_of(store, "one")).ended_at == 3.0
    assert await store.write(again) == "two"


async def test_a_new_session_replaces_the_one_that_the_command_names(store: Store) -> None:
    """F4: unless the route points elsewhere by then; that session is returned."""
    route = SessionKey("sim:default:dm:one:")
    await open_session(store, "one")
    reset = SessionReset(previous=SessionId("one"), reason=ResetReason.IDLE)
    new = c.OpenNewSession(
        session_id=SessionId("two"), route=route, principal=ANN, reset=reset, at=4.0
    )
    assert await store.write(new) == "two"
    two = await row_of(store, "two")
    assert (two.previous, two.auto_reset_reason, two.principal) == ("one", ResetReason.IDLE, "ann")
    assert (await row_of(store, "one")).ended_at == 4.0
    target = await store.read(q.GetRouteTarget(key=route))
    assert target is not None
    assert (target.session_id, target.unannounced_reset, target.previous) == (
        *("two", ResetReason.IDLE),
        "one",
    )
    late = msgspec.structs.replace(new, session_id=SessionId("three"), at=5.0)
    assert await store.write(late) == "two"
    assert await store.read(q.GetSession(session_id=SessionId("three"))) is None


async def test_a_route_that_is_not_known_has_no_target(store: Store) -> None:
    """G4."""
    assert await store.read(q.GetRouteTarget(key=ROUTE)) is None


async def test_a_pending_resume_is_marked_once_and_cleared_once(store: Store) -> None:
    """F6: only of the session that the route points to, and not of a suspended one."""
    await open_session(store, "one")
    route = SessionKey("sim:default:dm:one:")

    async def mark(session: str) -> bool:
        return await store.write(
            c.MarkResumePending(
                session_id=SessionId(session), route=route, reason="restart", at=3.0
            )
        )

    clear = c.ClearResumePending(session_id=SessionId("one"), route=route)
    assert not await store.write(clear)
    assert not await mark("another")
    assert await mark("one")
    one = await row_of(store, "one")
    assert (one.resume_pending, one.resume_reason, one.last_resume_marked_at) == (
        *(True, "restart"),
        3.0,
    )
    target = await store.read(q.GetRouteTarget(key=route))
    assert target is not None and target.interruption_note_pending
    assert await store.write(clear)
    assert not await store.write(clear)
    assert not (await row_of(store, "one")).resume_pending
    assert await store.write(c.SuspendSession(session_id=SessionId("one")))
    assert not await store.write(c.SuspendSession(session_id=SessionId("one")))
    assert not await mark("one")
    assert (await row_of(store, "one")).suspended


async def test_a_title_is_replaced_only_while_it_is_the_expected_one(store: Store) -> None:
    """K2: a person's title is not overwritten by a later one of the model's."""
    await open_session(store, "one")
    one = SessionId("one")
    await store.write(c.RenameSession(session_id=one, title="mine"))
    assert not await store.write(
        c.ReplaceSessionTitle(session_id=one, title="theirs", expected="first")
    )
    assert (await row_of(store, "one")).title == "mine"
    assert await store.write(c.ReplaceSessionTitle(session_id=one, title="new", expected="mine"))
    assert (await row_of(store, "one")).title == "new"
    with pytest.raises(StoreError, match="session two does not exist"):
        await store.write(c.RenameSession(session_id=SessionId("two"), title="x"))


async def test_a_session_expires_only_if_it_was_not_used_since(
    store: Store, chat: StoreChat
) -> None:
    """F4: one that is in use, or was used again, stays."""
    await open_session(store, "one", at=10.0)

    async def expire(session: str, active_at: float) -> bool:
        return await store.write(
            c.ExpireSession(session_id=SessionId(session), active_at=active_at, at=99.0)
        )

    assert not await expire("one", 9.0)
    assert await expire("one", 10.0)
    assert not await expire("one", 10.0)
    assert (await row_of(store, "one")).ended_at == 99.0
    await chat.begin_turn(at=20.0)
    assert not await expire(SESSION, 20.0), "its turn is open"


async def test_sessions_are_listed_by_when_they_are_unused_active_or_expire(store: Store) -> None:
    """F4, H3: oldest first; those that have ended or are suspended do not expire."""
    for number, name in enumerate(("a", "b", "c", "d")):
        await open_session(store, name, at=10.0 * number)
    await store.write(c.EndSession(session_id=SessionId("c"), at=50.0))
    await store.write(c.SuspendSession(session_id=SessionId("d")))
    assert await store.read(q.ListUnusedSessions(before=25.0, limit=2)) == ["a", "b"]
    assert await store.read(q.ListUnusedSessions(before=25.0, limit=9)) == ["a", "b", "c"]
    assert await store.read(q.ListRecentlyActiveSessions(since=10.0)) == ["b"]

    def expires(route: SessionKey, active_at: float) -> float | None:
        return None if route.endswith(":a:") else active_at + 5.0

    expiring = q.ListExpiringSessions(
        expires_at=expires, earliest=lambda active_at: active_at + 5.0, limit=9
    )
    found = ExpiringSession(session_id=SessionId("b"), active_at=10.0, expires_at=15.0)
    assert await store.read(expiring) == [found]


async def test_an_imported_session_has_its_records_in_order(store: Store) -> None:
    """K2: they get new numbers, and its route points to it."""
    records = tuple(
        TranscriptRecord(
            seq=number * 7, turn_id=TurnId("old"), message=UserMessage(text=text), created_at=number
        )
        for number, text in enumerate(("first", "second", "third"), 1)
    )
    imported = ImportedSession(
        id=SESSION, route=ROUTE, title="from elsewhere", records=records, at=9.0
    )
    await store.write(c.ImportSession(imported=imported))
    session = await row_of(store)
    assert (session.title, session.messages, session.current) == ("from elsewhere", 3, True)
    found = await store.read(q.GetTranscript(session_id=SESSION))
    assert [(each.seq, each.turn_id, each.message.text, each.created_at) for each in found] == [
        (1, None, "first", 1.0),
        (2, None, "second", 2.0),
        (3, None, "third", 3.0),
    ]


async def test_a_deleted_session_leaves_nothing_but_what_is_being_sent(
    store: Store, chat: StoreChat
) -> None:
    """I2: a delivery that is on its way keeps its row, without a word of the session."""
    row = await chat.say("a secret")
    await chat.begin_turn(row)
    replies = tuple(chat.reply(row, id=name, text="a secret") for name in ("sent", "sending"))
    await store.write(chat.turn_end(row, deliveries=replies))
    for reply in replies:
        await store.write(c.BeginAttempt(delivery_id=reply.id, scope=reply.scope, at=4.0))
    await store.write(
        c.SettleDelivery(
            delivery_id=replies[0].id, scope=replies[0].scope, state=DeliveryState.SENT, at=5.0
        )
    )
    await store.write(c.DeleteSession(session_id=SESSION))
    await store.write(c.ForgetMessageChanges(session_id=SESSION))
    assert await store.read(q.GetSession(session_id=SESSION)) is None
    assert await store.read(q.GetRouteSession(key=ROUTE)) is None
    assert await store.read(q.GetTurn(turn_id=TURN)) is None
    assert await store.read(q.GetInboxRow(inbox_id=row.row.id)) is None
    assert await store.read(q.GetTranscript(session_id=SESSION)) == []
    assert await store.read(q.GetDelivery(delivery_id=replies[0].id)) is None
    left = await store.read(q.GetDelivery(delivery_id=replies[1].id))
    assert left is not None
    assert (left.text, left.session_id, left.state) == ("(deleted)", None, DeliveryState.SENDING)
    assert await store.read(SearchQuery(words="secret")) == []


async def test_messages_are_found_by_their_words_where_they_may_be_seen(
    store: Store, chat: StoreChat
) -> None:
    """K3: the best match first, with the place of the words; another person finds nothing."""
    await exchange(chat, "t1", "where is the red kite", "in the shed", principal=ANN)
    (found,) = await store.read(SearchQuery(words="red kite"))
    assert (found.session.id, found.seq, found.role) == (SESSION, 1, "user")
    assert found.pieces == ("where is the ", "red", " ", "kite", "")
    for scope, number in (
        (SearchScope(route=ROUTE), 1),
        (SearchScope(route=SessionKey("elsewhere")), 0),
    ):
        assert len(await store.read(SearchQuery(words="kite", scope=scope))) == number
    assert await store.read(SearchQuery(words="kite", since=99.0)) == []
    assert (await store.read(SearchQuery(words="shed", session_id=SESSION)))[0].role == "assistant"
    status = await store.read(q.GetSearchStatus())
    assert (status.messages, status.behind) == (2, 0)


async def test_the_sessions_that_a_person_may_see_are_theirs_and_those_of_the_route(
    store: Store, chat: StoreChat
) -> None:
    """F1: the most recently active first, with what all of them have used."""
    used = Usage(input_tokens=10, output_tokens=1)
    begins: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("mine", "elsewhere", {"principal": ANN}),
        ("here", ROUTE, {}),
        ("other", "another", {"principal": PrincipalId("bob")}),
    )
    for number, (session, route, more) in enumerate(begins, 1):
        row = await chat.say()
        await chat.begin_turn(
            row, turn=f"t{number}", session=session, route=SessionKey(route), at=number, **more
        )
        await store.write(chat.turn_end(row, turn=f"t{number}", session=session, usage=used))
    visible = q.ListVisibleSessions(route=ROUTE, principal=ANN, limit=9)
    assert {row.id for row in await store.read(visible)} == {"here", "mine"}
    nobody = q.ListVisibleSessions(route=ROUTE, principal=None, limit=9)
    assert [row.id for row in await store.read(nobody)] == ["here"]
    assert await store.read(q.GetVisibleUsage(route=ROUTE, principal=ANN)) == used + used
    assert await store.read(q.GetVisibleUsage(route=ROUTE, principal=None)) == used

    async def sees(session: str) -> bool:
        query = q.GetVisibleSession(session_id=SessionId(session), route=ROUTE, principal=ANN)
        return await store.read(query) is not None

    assert [await sees(session) for session in ("mine", "here", "other")] == [True, True, False]


async def test_a_list_of_sessions_is_filtered(store: Store) -> None:
    """F1: by platform, by words of the title, and by state."""
    for name in ("one", "two", "three"):
        await open_session(store, name)
        await store.write(c.RenameSession(session_id=SessionId(name), title=f"about {name}"))
    await store.write(c.EndSession(session_id=SessionId("two"), at=5.0))

    async def listed(**conditions: Any) -> set[str]:
        return {row.id for row in await store.read(q.ListSessions(limit=9, **conditions))}

    assert await listed(q="t t") == {"two", "three"}
    assert await listed(platform="sim") == {"one", "two", "three"}
    assert await listed(platform="irc") == set()
    assert await listed(where=SessionFilter(ended=False)) == {"one", "three"}
    assert await listed(where=SessionFilter(exclude=(SessionId("one"),))) == {"two", "three"}


async def test_what_a_session_used_is_counted_by_turn_model_and_errand(
    store: Store, chat: StoreChat
) -> None:
    """K2: a sum that is stored counts no message twice."""
    first, second = Usage(input_tokens=10, output_tokens=2), Usage(input_tokens=5)
    title = Usage(input_tokens=1)
    await exchange(chat, "t1", usage=first)
    assert await store.read(q.GetSessionUsageByModel(session_id=SESSION)) == ModelUsage(
        by_model={"m": first}, uncounted=2
    )
    await store.write(c.CountModelUsage(session_id=SESSION))
    await exchange(chat, "t2", usage=second)
    by_model = await store.read(q.GetSessionUsageByModel(session_id=SESSION))
    assert (by_model.by_model, by_model.uncounted) == ({"m": first + second}, 2)
    for _ in range(2):
        await store.write(
            c.AddAuxiliaryUsage(session_id=SESSION, task=AuxiliaryTask.TITLE, usage=title)
        )
    auxiliary = await store.read(q.GetAuxiliaryUsage(session_id=SESSION))
    assert auxiliary == {AuxiliaryTask.TITLE: title + title}
    total = first + second + title + title
    assert await store.read(q.GetSessionUsage(session_id=SESSION)) == total
    by_model = await store.read(q.GetSessionUsageByModel(session_id=SESSION))
    assert by_model.by_model == {"m": first + second, "": title + title}
    assert await store.read(q.GetTurnUsageByModel(turn_id=TurnId("t2"))) == {"m": second}
    (preview,) = await store.read(q.ListSessionPreviews(session_ids=[SESSION]))
    assert (preview.last_text, preview.last_role, preview.usage) == ("hello", "assistant", total)


async def test_a_context_begins_with_the_last_compaction(store: Store, chat: StoreChat) -> None:
    """H1: what it covers stays in the transcript."""
    for number in (1, 2):
        await exchange(chat, f"t{number}", f"said {number}", f"answered {number}")
    assert (await store.read(q.GetContext(session_id=SESSION)))[0] == 0
    row = await chat.say("and now?")
    await chat.begin_turn(row, turn="t3")
    compaction = CompactionMessage(text="they greeted each other", covers=3)
    used = Usage(input_tokens=50)
    await store.write(
        c.RecordCompaction(
            turn_id=TurnId("t3"), session_id=SESSION, message=compaction, usage=used, at=4.0
        )
    )
    covered, records = await store.read(q.GetContext(session_id=SESSION))
    assert covered == 3
    assert [record.message.text for record in records] == [
        *("answered 2", "and now?"),
        "they greeted each other",
    ]
    whole = await store.read(q.GetTranscript(session_id=SESSION))
    assert len(whole) == 6 and whole[-1].message == compaction
    (step,) = await store.read(q.ListSteps(turn_id=TurnId("t3")))
    assert (step.kind, step.usage) == ("compaction", used)


async def test_records_are_read_in_pages(store: Store, chat: StoreChat) -> None:
    """F1: after a number from there on, else the last ones before it."""
    for number in range(3):
        await exchange(chat, f"t{number}")

    async def page(**bounds: int) -> list[int]:
        found = await store.read(q.ListRecords(session_id=SESSION, limit=2, **bounds))
        return [record.seq for record in found]

    assert await page() == [5, 6]
    assert await page(before=5) == [3, 4]
    assert await page(after=1) == [2, 3]
    assert await page(after=6) == []


async def test_a_fork_is_a_copy_and_an_undo_hides_the_last_records(
    store: Store, chat: StoreChat
) -> None:
    """F1: the original stays as it is, and what was undone stays stored."""
    await exchange(chat, "t1", "one", "first")
    await exchange(chat, "t2", "two", "second")
    fork = ForkEffect(of=SESSION, session_id=SessionId("copy"), title="copy", principal=ANN)
    await store.write(CommandEffect(inbox_ends=(), route=ROUTE, fork=fork, at=5.0))
    assert await store.read(q.GetRouteSession(key=ROUTE)) == "copy"
    undo = UndoEffect(session_id=SessionId("copy"), from_seq=3)
    await store.write(CommandEffect(inbox_ends=(), session_id=SessionId("copy"), undo=undo, at=6.0))
    copied = await store.read(q.GetTranscript(session_id=SessionId("copy")))
    assert [each.message.text for each in copied] == ["one", "first"]
    stored = await store.read(q.ListRecords(session_id=SessionId("copy"), limit=9))
    assert [each.undone for each in stored] == [False, False, True, True]
    original = await store.read(q.GetTranscript(session_id=SESSION))
    assert [each.message.text for each in original] == ["one", "first", "two", "second"]
    assert (await row_of(store, "copy")).previous == SESSION
    await store.write(
        CommandEffect(
            inbox_ends=(), session_id=SessionId("copy"), route=ROUTE, resume=SESSION, at=7.0
        )
    )
    assert await store.read(q.GetRouteSession(key=ROUTE)) == SESSION


async def test_a_prompt_of_another_configuration_replaces_the_frozen_one(
    store: Store, chat: StoreChat
) -> None:
    """A4: only when it is asked for by name."""
    await chat.begin_turn(prompt="first")
    await store.write(c.SavePrompt(session_id=SESSION, prompt="second", fingerprint="f2"))
    session = await row_of(store)
    assert (session.prompt, session.prompt_fingerprint) == ("second", "f2")


async def test_a_busy_mode_is_saved_with_its_session(store: Store, chat: StoreChat) -> None:
    """B3: and comes with the next message of the route."""
    await chat.begin_turn()
    assert await store.read(q.GetBusyMode(session_id=SESSION)) is None

    async def choose(mode: str) -> None:
        await store.write(
            CommandEffect(inbox_ends=(), session_id=SESSION, route=ROUTE, busy_mode=mode, at=3.0)
        )

    await choose("queue")
    assert await store.read(q.GetBusyMode(session_id=SESSION)) is BusyMode.QUEUE
    assert (await chat.say()).busy_mode is BusyMode.QUEUE
    await choose("")
    assert await store.read(q.GetBusyMode(session_id=SESSION)) is None


async def test_the_last_source_is_that_of_the_last_answered_message(
    store: Store, chat: StoreChat
) -> None:
    """I1: None where nothing was answered."""
    row = await chat.say()
    await chat.begin_turn(row)
    assert await store.read(q.GetLastSource(session_id=SESSION)) is None
    await store.write(chat.turn_end(row, deliveries=(chat.reply(row, text="hello"),)))
    assert await store.read(q.GetLastSource(session_id=SESSION)) == row.row.inbound.source


async def test_a_proactive_message_is_sent_once_with_its_note(
    store: Store, chat: StoreChat
) -> None:
    """I1: the note is in the transcript of the session that the delivery names."""
    await exchange(chat, "t1")
    new = NewDelivery(
        id=chat.reply(None, id="p").id,
        address=ADDRESS,
        kind=DeliveryKind.MESSAGE,
        text="psst",
        session_id=SESSION,
    )
    proactive = ProactiveDelivery(delivery=new, note=NoteMessage(text="you sent it"), at=9.0)
    assert await store.write(proactive)
    assert not await store.write(proactive)
    records = await store.read(q.GetTranscript(session_id=SESSION))
    assert [each.message.text for each in records] == ["hi", "hello", "you sent it"]
    assert [row.text for row in await store.read(q.ListUndelivered())] == ["psst"]
    assert (await row_of(store)).active_at == 9.0


async def test_the_report_of_a_failed_delivery_is_one_commit_with_its_end(
    store: Store, chat: StoreChat
) -> None:
    """I2: the notes for the agents, and the notice for the chat. A session that is gone gets no
    note."""
    await exchange(chat, "t1")
    new = NewDelivery(
        id=chat.reply(None, id="p").id,
        address=ADDRESS,
        kind=DeliveryKind.FILE,
        text="",
        session_id=SESSION,
        file=PendingFile(workspace=SESSION, path="a.txt"),
    )
    await store.write(c.AddDeliveries(deliveries=[new], at=8.0))
    report = FailureReport(
        note=NoteMessage(text="it failed"),
        session_ids=(SESSION, SessionId("gone")),
        notice=chat.reply(None, id="n", text="sorry"),
    )
    end = c.SettleDelivery(
        delivery_id=new.id, scope=new.scope, state=DeliveryState.FAILED, error="413", at=9.0
    )
    await store.write(c.ReportFailedDelivery(end=end, report=report))
    records = await store.read(q.GetTranscript(session_id=SESSION))
    assert [each.message.text for each in records] == ["hi", "hello", "it failed"]
    assert await store.read(q.GetTranscript(session_id=SessionId("gone"))) == []
    assert [row.text for row in await store.read(q.ListUndelivered())] == ["sorry"]
    failed = await store.read(q.GetDelivery(delivery_id=new.id))
    assert failed is not None and (failed.state, failed.error) == (DeliveryState.FAILED, "413")
    with pytest.raises(StoreError):  # it has ended: nothing is told twice
        await store.write(c.ReportFailedDelivery(end=end, report=report))
    assert len(await store.read(q.GetTranscript(session_id=SESSION))) == 3


async def test_the_statistics_of_a_transcript_cover_a_range_of_records(
    store: Store, chat: StoreChat
) -> None:
    """F1: the turns that wrote in it as a whole, and the replies in it."""
    used = Usage(input_tokens=7)
    for number in (1, 2, 3):
        await exchange(chat, f"t{number}", usage=used, at=10.0 * number)
    found = await store.read(q.GetTranscriptStats(session_id=SESSION, first=3, last=4, priced=True))
    assert [(each.turn.id, each.usage, each.steps) for each in found.turns] == [("t2", used, 1)]
    assert [(each.record, each.model, each.usage) for each in found.replies] == [(4, "m", used)]
    assert found.usage_by_model == {"t2": {"m": used}}
    unpriced = await store.read(
        q.GetTranscriptStats(session_id=SESSION, first=1, last=6, priced=False)
    )
    assert [each.turn.id for each in unpriced.turns] == ["t1", "t2", "t3"]
    assert unpriced.usage_by_model == {}


async def test_a_turn_that_was_superseded_is_found_by_its_reason_and_time(
    store: Store, chat: StoreChat
) -> None:
    """F9: a repeated /stop counts those of the last minute."""
    row = await chat.say()
    await chat.begin_turn(row)
    end = chat.turn_end(
        row, state=InboxState.SUPERSEDED, turn_state=TurnRowState.SUPERSEDED, reason="stopped"
    )
    await store.write(end)

    async def between(since: float, until: float, reason: str = "stopped") -> list[str]:
        query = q.ListSupersededTurns(session_id=SESSION, reason=reason, since=since, until=until)
        return [*await store.read(query)]

    assert await between(2.0, 4.0) == ["t"]
    assert await between(4.0, 5.0) == []
    assert await between(2.0, 4.0, "another") == []
    last = await store.read(q.GetLastTurn(session_id=SESSION))
    assert last is not None and (last.id, last.state) == ("t", TurnRowState.SUPERSEDED)
    assert await store.read(q.GetLastTurn(session_id=SessionId("other"))) is None

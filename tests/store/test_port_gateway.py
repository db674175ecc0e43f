"""The store's port: what belongs to the gateway itself, to an account, and to the audit."""

import msgspec
from tests.support.store_chat import ADDRESS, SESSION, StoreChat

from holdfast.core.ids import DeliveryId, PrincipalId
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery, QuietChat
from holdfast.core.ops.stats import MinuteStats
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind
from holdfast.core.ports import store_commands as c
from holdfast.core.ports import store_queries as q
from holdfast.core.ports.store import Store
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.stop import HomeChannel, StopKind, StopOrder, StopRequester, StopRow

ANN = PrincipalId("ann")


def stop(number: int) -> StopRow:
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.CLI, at=float(number))
    return StopRow(id=f"stop-{number}", order=order, version="1")


async def test_a_stop_is_open_until_a_successor_is_ready(store: Store) -> None:
    """D1: one commit closes every open stop and queues the notices."""
    await store.write(c.RecordStop(row=stop(1)))
    done = msgspec.structs.replace(stop(1), parked=2, stopped_at=1.5, phases={"drain": 0.5})
    await store.write(c.RecordStop(row=done))
    await store.write(c.RecordStop(row=stop(2)))
    assert await store.read(q.ListOpenStops()) == [stop(2), done]
    notice = NewDelivery(
        id=DeliveryId("back"), address=ADDRESS, kind=DeliveryKind.NOTICE, text="Back again."
    )
    await store.write(c.RecordReady(deliveries=[notice], at=3.0, resumed=2))
    assert await store.read(q.ListOpenStops()) == []
    last = await store.read(q.ListLastStops(limit=1))
    assert [(row.id, row.ready_at, row.notified, row.resumed) for row in last] == [
        ("stop-2", 3.0, True, 2)
    ]
    before = await store.read(q.ListLastStops(limit=9, before="stop-2"))
    assert [row.id for row in before] == ["stop-1"]
    assert [row.text for row in await store.read(q.ListUndelivered())] == ["Back again."]


async def test_old_stops_are_pruned_but_for_the_last(store: Store) -> None:
    """D1: an open one stays."""
    for number in range(3):
        await store.write(c.RecordStop(row=stop(number)))
    await store.write(c.RecordReady(deliveries=[], at=9.0))
    await store.write(c.RecordStop(row=stop(3)))
    await store.write(c.PruneStops(keep=2))
    assert [row.id for row in await store.read(q.ListLastStops(limit=9))] == ["stop-3", "stop-2"]


async def test_a_home_channel_is_that_of_its_account(store: Store) -> None:
    """D1: the last one that was set."""

    async def change(**effect: object) -> None:
        await store.write(CommandEffect(inbox_ends=(), at=1.0, **effect))  # type: ignore[arg-type]

    home = HomeChannel(address=ADDRESS, set_by=ANN, at=1.0)
    other = HomeChannel(address=msgspec.structs.replace(ADDRESS, chat_id="other"), set_by=ANN)
    await change(home=home)
    await change(home=other)
    assert await store.read(q.ListHomeChannels()) == [other]
    await change(unset_home=ADDRESS)
    assert await store.read(q.ListHomeChannels()) == []


async def test_a_chat_is_quiet_until_the_choice_is_withdrawn(store: Store) -> None:
    """D1."""
    chosen = QuietChat(
        platform="sim", account="default", chat_id="c", quiet=True, set_by=ANN, at=1.0
    )
    for choice, expected in (
        (chosen, [chosen]),
        (msgspec.structs.replace(chosen, quiet=None), []),
    ):
        await store.write(CommandEffect(inbox_ends=(), quiet=choice, at=1.0))
        assert await store.read(q.ListQuietChats()) == expected


async def test_the_statistics_of_a_minute_are_added_up(store: Store) -> None:
    """K2: also those of two processes; old minutes are deleted."""
    for at, turns in ((60, 1), (120, 2), (120, 3)):
        await store.write(c.AddMinuteStats(stats=MinuteStats(at=at, turns=turns), since=0))
    found = await store.read(q.ListMinuteStats(since=0))
    assert [(minute.at, minute.turns) for minute in found] == [(60, 1), (120, 5)]
    assert [minute.at for minute in await store.read(q.ListMinuteStats(since=61))] == [120]
    await store.write(c.AddMinuteStats(stats=MinuteStats(at=180), since=120))
    assert [minute.at for minute in await store.read(q.ListMinuteStats(since=0))] == [120, 180]


def entry(subject: str, *, at: float = 1.0, session: str | None = None) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind.SESSION_RENAMED,
        actor="ann",
        at=at,
        session_id=session,
        subject=subject,
        facts={"to": "x"},
        words={"title": "a secret"} if session else {},
    )


async def test_the_audit_is_a_chain_that_can_be_checked(store: Store) -> None:
    """Law 12: its rows are found by session, kind, actor and text."""
    for number in range(3):
        await store.write(c.RecordAudit(entry=entry(f"s{number}", at=float(number))))

    async def found(**conditions: object) -> list[str]:
        where = AuditFilter(**conditions)  # type: ignore[arg-type]
        return [row.subject for row in await store.read(q.ListAudit(where=where, limit=9))]

    assert await found() == ["s2", "s1", "s0"]
    assert await found(kind="session") == ["s2", "s1", "s0"]
    assert await found(kind="job.added") == []
    assert await found(text="S1") == ["s1"]
    assert await found(after=1) == ["s1", "s2"]
    assert await found(actor="nobody") == []
    check = await store.read(q.VerifyAudit())
    assert (check.rows, check.first, check.last, check.broken) == (3, 1, 3, ())
    (last,) = await store.read(q.ListAudit(where=AuditFilter(), limit=1))
    assert check.head == last.hash


async def test_the_words_of_the_audit_go_with_their_session(store: Store, chat: StoreChat) -> None:
    """Law 12: the row stays, and the chain stays whole."""
    await chat.begin_turn(await chat.say())
    await store.write(c.RecordAudit(entry=entry("x", session=SESSION)))
    (row,) = await store.read(q.ListAudit(where=AuditFilter(session=SESSION), limit=9))
    assert (row.words, row.forgotten) == ({"title": "a secret"}, False)
    await store.write(c.DeleteSession(session_id=SESSION))
    (row,) = await store.read(q.ListAudit(where=AuditFilter(session=SESSION), limit=9))
    assert (row.words, row.forgotten) == (None, True)
    check = await store.read(q.VerifyAudit())
    assert (check.forgotten, check.broken) == (1, ())


async def test_old_rows_of_the_audit_are_pruned_and_the_chain_goes_on(store: Store) -> None:
    """Law 12: that it was done is a row."""
    for number in range(3):
        await store.write(c.RecordAudit(entry=entry(f"s{number}", at=float(number))))
    assert await store.write(c.PruneAudit(before=2.0, at=9.0)) == 2
    rows = await store.read(q.ListAudit(where=AuditFilter(), limit=9))
    assert [row.kind for row in rows] == [AuditKind.AUDIT_PRUNED, AuditKind.SESSION_RENAMED]
    check = await store.read(q.VerifyAudit())
    assert (check.rows, check.first, check.broken) == (2, 3, ())


async def test_a_sound_store_has_no_damage(store: Store) -> None:
    """K3."""
    await store.write(c.SetMeta(key="key", value="value"))
    assert await store.read(q.CheckIntegrity()) == []

"""Conservation checks: what must hold after a harness has settled, whatever was killed before.

Each check yields one sentence per violation; no sentence means that nothing was lost or repeated.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import apsw
import msgspec
from tests.faults import audit_checks
from tests.support.process_harness import SETTLES_WITHIN, ProcessHarness
from tests.support.rerun_failed import ConservationError
from tests.support.store_file import open_read_only

from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryKind, DeliveryState
from holdfast.core.messages.transcript import Message
from holdfast.core.turns.projection import project, projection_problems
from holdfast.testing.simulated.events import BotMessage, Ledger

ANSWERED = frozenset({InboxState.ANSWERED, InboxState.MERGED})
_ANSWER = re.compile(r"\[text ([^\]]*)\]")
_EFFECT = re.compile(r"echo (\S+) >> effects\.log")


def plain(name: str) -> str:
    """A message that is answered at once, with an answer that names it."""
    return f"say {name} [text answer to {name}]"


def effect(name: str) -> str:
    """A message that writes its name into a file, once, before it is answered."""
    command = f"echo {name} >> effects.log"
    return f'do {name} [tool terminal {{"command": "{command}"}}] [then] [text answer to {name}]'


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the inbox, as the laws read it."""

    id: int
    state: InboxState
    turn_id: str | None
    merged_into: int | None
    reason: str
    chat: str
    message_id: str
    text: str
    platform: str
    event_id: str

    @property
    def said(self) -> bool:
        """Whether somebody said it to the vendor: what children bring back nobody did."""
        return self.platform == "simulated" and not self.event_id.startswith("house:")


class Owed(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the outbox, as the laws read it."""

    id: str
    inbox_id: int | None  # None: it answers nothing; the gateway says it for itself
    kind: DeliveryKind
    state: DeliveryState
    resends: int


class Books:
    """What a stopped gateway's store and its vendor say, side by side."""

    def __init__(
        self, process_harness: ProcessHarness, ledger: Ledger, *, idempotent: bool
    ) -> None:
        self.ledger = ledger
        self.idempotent = idempotent
        self.refused_by_model: int = process_harness.model.requests(last=1)["refused"]
        self.effects = Counter(process_harness.effects())
        with open_read_only(process_harness.paths.db) as db:
            self.inbox = {row.id: row for row in map(_accepted, _rows(db, "inbox"))}
            resends = Counter[str]()
            for part in _rows(db, "parts"):
                resends[part["delivery_id"]] += part["resends"]
            owed = (_owed(row, resends[row["id"]]) for row in _rows(db, "outbox"))
            self.outbox = {row.id: row for row in owed}
            self.turns = {row["id"]: row for row in _rows(db, "turns")}
            self.transcripts = _transcripts(db)
            self.unaudited = list(audit_checks.breaches(db))

    def told_in(self, row: Accepted) -> Accepted:
        """The row whose reply is this row's reply too."""
        while row.merged_into is not None:
            row = self.inbox[row.merged_into]
        return row


async def check_laws(
    process_harness: ProcessHarness,
    *,
    idempotent: bool = False,
    ends: frozenset[InboxState] = ANSWERED,
    within: float = SETTLES_WITHIN,
) -> Books:
    """Let the running gateway settle, stop it, and hold its books against every law."""
    ledger = await process_harness.wait_until_settled(within=within)
    kept = (await process_harness.status())["inbox_counts"]
    ended = sum(kept[state] for state in InboxState if state not in ("queued", "running"))
    if not kept["accepted"] - ended == kept["queued"] + kept["running"] == 0:
        raise ConservationError(f"the ledger does not balance: {kept}")
    await process_harness.stop()
    books = Books(process_harness, ledger, idempotent=idempotent)
    broken = [why for law in LAWS for why in law(books)]
    broken += _unwanted_ends(books, ends)
    if broken:
        raise ConservationError("\n".join(broken) + process_harness.errors())
    return books


def accepted_once(books: Books) -> Iterator[str]:
    """G1, G2: every message said is in the inbox, and none is there twice."""
    rows = Counter(r.message_id for r in books.inbox.values() if r.said)
    for said in books.ledger.said:
        if rows[said.message_id] != 1:
            yield f"{said.text!r} was accepted {rows[said.message_id]} times"
    if len(rows) != len(books.ledger.said):
        yield f"{len(rows)} messages are in the inbox, {len(books.ledger.said)} were said"


def ended_visibly(books: Books) -> Iterator[str]:
    """G3: each message has an end, and an answer or the reason for none."""
    owed = Counter(row.inbox_id for row in books.outbox.values())
    for row in books.inbox.values():
        if row.state in (InboxState.QUEUED, InboxState.RUNNING):
            yield f"{row.text!r} is {row.state} for ever"
        elif owed[books.told_in(row).id] != 1:
            yield f"{row.text!r} ended as {row.state} with {owed[row.id]} replies"


def delivered_once(books: Books) -> Iterator[str]:
    """I1, I2, I4: what is owed arrives once, each part of it; a copy is marked, and there is at
    most one. A reply that was shown as it grew is no other."""
    arrivals: defaultdict[str, defaultdict[int, list[bool]]]
    arrivals = defaultdict(lambda: defaultdict(list))
    for sent in books.ledger.sent:
        delivery_id, part = _part(sent)
        arrivals[delivery_id][part].append(sent.outgoing.maybe_repeated)
    for stranger in arrivals.keys() - books.outbox.keys():
        yield f"{stranger} arrived and nobody owed it"
    for row in books.outbox.values():
        if row.inbox_id is None:
            continue  # a notice is worth nothing late, and may be dropped
        if books.inbox[row.inbox_id].platform == "simulated":
            for number in range(1, max(arrivals[row.id], default=1) + 1):
                marks = arrivals[row.id][number]
                yield from _arrived(row, marks, idempotent=books.idempotent)


def _part(sent: BotMessage) -> tuple[str, int]:
    """The delivery that a message belongs to, and which of its parts it is."""
    delivery_id, _, part = sent.outgoing.delivery_id.partition(".")
    return delivery_id, int(part or 1)


def _arrived(row: Owed, marks: list[bool], *, idempotent: bool) -> Iterator[str]:
    if row.state is DeliveryState.UNKNOWN and row.resends and not idempotent:
        return  # it was sent again once, and that too was cut: there is nothing left to try
    if row.state is not DeliveryState.SENT or not marks:
        yield f"{row.id} ended as {row.state}, and arrived {len(marks)} times"
    if not all(marks[1:]) or len(marks) > 2:
        yield f"{row.id} arrived {len(marks)} times, marked as repeated: {marks}"
    if idempotent and marks != [False]:
        yield f"{row.id}: a vendor that takes a delivery once took {marks}"


def answered_rightly(books: Books) -> Iterator[str]:
    """H1, I4: the answer is the one that finishes the request, not an apology for it; what was
    shown of it on the way ends in that."""
    parts = {_part(sent): sent.text for sent in books.ledger.sent}  # of a copy, the last
    texts: dict[str, str] = {}
    for (delivery_id, _), text in sorted(parts.items()):
        texts[delivery_id] = texts.get(delivery_id, "") + text
    for owed in books.outbox.values():
        if owed.kind is DeliveryKind.COMMAND or owed.inbox_id is None:
            continue  # the gateway's own word
        if owed.state is not DeliveryState.SENT:
            continue  # that it may not have arrived is told, and is another law's
        row = books.inbox[owed.inbox_id]
        promised = _ANSWER.findall(row.text)
        if row.state is not InboxState.ANSWERED or not promised or owed.id not in texts:
            continue
        if texts[owed.id] != promised[-1]:
            yield f"{row.text!r} was answered with {texts[owed.id]!r}"


def in_order(books: Books) -> Iterator[str]:
    """H5, I3: in each chat, answers arrive in the order in which messages were accepted."""
    last: dict[str, int] = {}
    seen: set[str] = set()
    for sent in books.ledger.sent:
        owed = books.outbox.get(sent.outgoing.delivery_id)
        if owed is None or owed.inbox_id is None or owed.id in seen:
            continue
        seen.add(owed.id)
        chat = sent.outgoing.chat_id
        if owed.inbox_id < last.get(chat, 0):
            yield f"{sent.outgoing.text!r} arrived in {chat} after the answer to a later message"
        last[chat] = owed.inbox_id


def done_once(books: Books) -> Iterator[str]:
    """H1, H2: no effect happens twice, and none of an answered message is missing."""
    for row in books.inbox.values():
        for name in _EFFECT.findall(row.text):
            times = books.effects[name]
            if times > 1 or (times < 1 and row.state is InboxState.ANSWERED):
                yield f"the effect {name!r} of a message {row.state} happened {times} times"


def nothing_open(books: Books) -> Iterator[str]:
    """H3, I4: no turn is left behind, and no reply that was begun."""
    for row in books.outbox.values():
        if row.state is DeliveryState.STREAMING:
            yield f"{row.id} is shown for ever, and never said"
    for turn in books.turns.values():
        if turn["state"] == "open":
            yield f"turn {turn['id']} is open for ever"


def fit_for_a_provider(books: Books) -> Iterator[str]:
    """H7: every transcript is one that a provider takes, and every request was."""
    if books.refused_by_model:
        yield f"the model refused {books.refused_by_model} requests as invalid"
    for session_id, messages in books.transcripts.items():
        for why in projection_problems(project(messages)):
            yield f"the transcript of {session_id}: {why}"


def audited_once(books: Books) -> Iterator[str]:
    """K2: a call's end and its row of the audit are one commit, whatever cut the process."""
    yield from books.unaudited


LAWS = (
    accepted_once,
    ended_visibly,
    delivered_once,
    answered_rightly,
    in_order,
    done_once,
    nothing_open,
    fit_for_a_provider,
    audited_once,
)


def _unwanted_ends(books: Books, ends: frozenset[InboxState]) -> list[str]:
    rows = books.inbox.values()
    return [f"{r.text!r} ended as {r.state}: {r.reason}" for r in rows if r.state not in ends]


def _rows(db: apsw.Cursor, table: str) -> list[dict[str, Any]]:
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    found = db.execute(f"SELECT * FROM {table}")
    return [dict(zip(names, row, strict=True)) for row in found]


def _accepted(row: dict[str, Any]) -> Accepted:
    inbound = msgspec.json.decode(row["body"])
    said = {"message_id": inbound["message_id"], "text": inbound["text"]}
    return msgspec.convert({**row, **said, "chat": inbound["source"]["chat_id"]}, Accepted)


def _owed(row: dict[str, Any], resends: int) -> Owed:
    """`resends`: of its parts, where it has any."""
    return msgspec.convert({**row, "resends": row["resends"] + resends}, Owed)


def _transcripts(db: apsw.Cursor) -> dict[str, list[Message]]:
    sessions: defaultdict[str, list[Message]] = defaultdict(list)
    for session_id, body in db.execute("SELECT session_id, body FROM messages ORDER BY seq"):
        sessions[session_id].append(msgspec.json.decode(body, type=Message))
    return dict(sessions)

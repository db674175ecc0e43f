"""Conservation checks: what must hold after a harness has settled, after any kills.

Each check yields one sentence per violation; no sentence means that nothing was lost or repeated.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
from tests.faults import audit_checks
from tests.support.process_harness import SETTLES_WITHIN, ProcessHarness
from tests.support.stores import StoredRows, implementation

from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryKind, DeliveryState
from holdfast.core.messages.transcript import Message
from holdfast.core.turns.projection import project, projection_problems
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.testing.simulated.events import BotMessage, Ledger


class ConservationError(AssertionError):
    """Something was lost or done twice."""


ANSWERED = frozenset({InboxState.ANSWERED, InboxState.MERGED})
_ANSWER = re.compile(r"\[text ([^\]]*)\]")
_EFFECT = re.compile(r"echo (\S+) >> effects\.log")


def plain_message(name: str) -> str:
    """A message that is answered at once, with an answer that names it."""
    return f"say {name} [text answer to {name}]"


def effect_message(name: str) -> str:
    """A message that writes its name into a file, once, before it is answered."""
    command = f"echo {name} >> effects.log"
    return f'do {name} [tool terminal {{"command": "{command}"}}] [then] [text answer to {name}]'


class InboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the inbox, as the invariants read it."""

    id: int
    state: InboxState
    session_id: str | None
    turn_id: str | None
    merged_into: int | None
    reason: str
    chat: str
    message_id: str
    text: str
    platform: str
    event_id: str

    @property
    def from_user(self) -> bool:
        """Whether a user sent it through the vendor; results of subagents and jobs are internal."""
        return self.platform == "simulated" and not self.event_id.startswith("house:")


class OutboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the outbox, as the invariants read it."""

    id: str
    inbox_id: int | None  # None: a notice of the gateway, which answers no message
    kind: DeliveryKind
    state: DeliveryState
    resends: int


class StoreContents:
    """The contents of a stopped gateway's store, and the vendor's ledger."""

    def __init__(
        self, process_harness: ProcessHarness, ledger: Ledger, *, idempotent: bool
    ) -> None:
        self.ledger = ledger
        self.idempotent = idempotent
        self.refused_by_model: int = process_harness.model.requests(last=1)["refused"]
        self.effects = Counter(process_harness.effects())
        with implementation().stored_rows(process_harness.paths.db) as rows:
            self.inbox = {row.id: row for row in map(_inbox_record, rows.table("inbox"))}
            resends = Counter[str]()
            for part in rows.table("parts"):
                resends[part["delivery_id"]] += part["resends"]
            outbox = (_outbox_record(row, resends[row["id"]]) for row in rows.table("outbox"))
            self.outbox = {row.id: row for row in outbox}
            self.turns = {row["id"]: row for row in rows.table("turns")}
            self.transcripts = _transcripts(rows)
            self.open_sessions = {
                row["id"] for row in rows.table("sessions") if row["ended_at"] is None
            }
            self.unaudited = list(
                audit_checks.audit_violations(rows.table("steps"), rows.table("audit"))
            )

    def answered_by(self, row: InboxRecord) -> InboxRecord:
        """The row whose reply is this row's reply too."""
        while row.merged_into is not None:
            row = self.inbox[row.merged_into]
        return row


async def check_invariants(
    process_harness: ProcessHarness,
    *,
    idempotent: bool = False,
    ends: frozenset[InboxState] = ANSWERED,
    within: float = SETTLES_WITHIN,
) -> StoreContents:
    """Let the running gateway settle, stop it, and check every invariant on what it left."""
    ledger = await process_harness.wait_until_settled(within=within)
    counts = (await process_harness.status())["inbox_counts"]
    ended = sum(counts[state] for state in InboxState if state not in ("queued", "running"))
    if not counts["accepted"] - ended == counts["queued"] + counts["running"] == 0:
        raise ConservationError(f"the ledger does not balance: {counts}")
    await process_harness.stop()
    contents = StoreContents(process_harness, ledger, idempotent=idempotent)
    violations = [why for invariant in INVARIANTS for why in invariant(contents)]
    violations += _unexpected_ends(contents, ends)
    if violations:
        raise ConservationError("\n".join(violations) + process_harness.errors())
    return contents


def messages_are_accepted_once(contents: StoreContents) -> Iterator[str]:
    """G1, G2: every message that was sent is in the inbox, and none is there twice."""
    rows = Counter(r.message_id for r in contents.inbox.values() if r.from_user)
    for said in contents.ledger.said:
        if rows[said.message_id] != 1:
            yield f"{said.text!r} was accepted {rows[said.message_id]} times"
    if len(rows) != len(contents.ledger.said):
        yield f"{len(rows)} messages are in the inbox, {len(contents.ledger.said)} were sent"


def messages_end_with_one_reply(contents: StoreContents) -> Iterator[str]:
    """G3: each message has an end, and an answer or the reason for none."""
    replies = Counter(row.inbox_id for row in contents.outbox.values())
    for row in contents.inbox.values():
        if row.state in (InboxState.QUEUED, InboxState.RUNNING):
            yield f"{row.text!r} is {row.state} for ever"
        elif replies[contents.answered_by(row).id] != 1:
            yield f"{row.text!r} ended as {row.state} with {replies[row.id]} replies"


def replies_arrive_once(contents: StoreContents) -> Iterator[str]:
    """I1, I2, I4: each part of a reply arrives once; a copy is marked, and there is at most one.
    The same holds for a streamed reply."""
    arrivals: defaultdict[str, defaultdict[int, list[bool]]]
    arrivals = defaultdict(lambda: defaultdict(list))
    for sent in contents.ledger.sent:
        delivery_id, part = _part(sent)
        arrivals[delivery_id][part].append(sent.outgoing.maybe_repeated)
    for delivery_id in arrivals.keys() - contents.outbox.keys():
        yield f"{delivery_id} arrived without a row in the outbox"
    for row in contents.outbox.values():
        if row.inbox_id is None:
            continue  # a notice may be dropped
        if contents.inbox[row.inbox_id].platform == "simulated":
            for number in range(1, max(arrivals[row.id], default=1) + 1):
                repeat_marks = arrivals[row.id][number]
                yield from _arrival_violations(row, repeat_marks, idempotent=contents.idempotent)


def _part(sent: BotMessage) -> tuple[str, int]:
    """The delivery that a message belongs to, and which of its parts it is."""
    delivery_id, _, part = sent.outgoing.delivery_id.partition(".")
    return delivery_id, int(part or 1)


def _arrival_violations(
    row: OutboxRecord, repeat_marks: list[bool], *, idempotent: bool
) -> Iterator[str]:
    if row.state is DeliveryState.UNKNOWN and row.resends and not idempotent:
        return  # its resend was interrupted too: there is nothing left to try
    if row.state is not DeliveryState.SENT or not repeat_marks:
        yield f"{row.id} ended as {row.state}, and arrived {len(repeat_marks)} times"
    if not all(repeat_marks[1:]) or len(repeat_marks) > 2:
        yield f"{row.id} arrived {len(repeat_marks)} times, marked as repeated: {repeat_marks}"
    if idempotent and repeat_marks != [False]:
        yield f"{row.id}: a vendor that takes a delivery once took {repeat_marks}"


def replies_have_the_right_text(contents: StoreContents) -> Iterator[str]:
    """H1, I4: the answer is the one that finishes the request, not an apology; a streamed reply
    ends as that text."""
    parts = {_part(sent): sent.text for sent in contents.ledger.sent}  # of a copy, the last
    texts: dict[str, str] = {}
    for (delivery_id, _), text in sorted(parts.items()):
        texts[delivery_id] = texts.get(delivery_id, "") + text
    for delivery in contents.outbox.values():
        if delivery.kind is DeliveryKind.COMMAND or delivery.inbox_id is None:
            continue  # the gateway's own reply
        if delivery.state is not DeliveryState.SENT:
            continue  # another invariant covers it
        row = contents.inbox[delivery.inbox_id]
        promised = _ANSWER.findall(row.text)
        if row.state is not InboxState.ANSWERED or not promised or delivery.id not in texts:
            continue
        if texts[delivery.id] != promised[-1]:
            yield f"{row.text!r} was answered with {texts[delivery.id]!r}"


def replies_arrive_in_order(contents: StoreContents) -> Iterator[str]:
    """H5, I3: in each chat, answers arrive in the order in which messages were accepted."""
    last: dict[str, int] = {}
    seen: set[str] = set()
    for sent in contents.ledger.sent:
        row = contents.outbox.get(sent.outgoing.delivery_id)
        if row is None or row.inbox_id is None or row.id in seen:
            continue
        seen.add(row.id)
        chat = sent.outgoing.chat_id
        if row.inbox_id < last.get(chat, 0):
            yield f"{sent.outgoing.text!r} arrived in {chat} after the answer to a later message"
        last[chat] = row.inbox_id


def effects_happen_once(contents: StoreContents) -> Iterator[str]:
    """H1, H2: no effect happens twice, and none of an answered message is missing."""
    for row in contents.inbox.values():
        for name in _EFFECT.findall(row.text):
            times = contents.effects[name]
            if times > 1 or (times < 1 and row.state is InboxState.ANSWERED):
                yield f"the effect {name!r} of a message {row.state} happened {times} times"


def no_turn_is_open(contents: StoreContents) -> Iterator[str]:
    """H3, I4: no turn is left open, and no streamed reply."""
    for row in contents.outbox.values():
        if row.state is DeliveryState.STREAMING:
            yield f"{row.id} is streamed for ever, and never completed"
    for turn in contents.turns.values():
        if turn["state"] == "open":
            yield f"turn {turn['id']} is open for ever"


def sessions_of_single_tasks_have_ended(contents: StoreContents) -> Iterator[str]:
    """A11, J4: the session of a subagent, or of a run of a job, ends with its one message."""
    for row in contents.inbox.values():
        if row.platform == INTERNAL_PLATFORM and row.session_id in contents.open_sessions:
            yield f"{row.text!r} ended as {row.state}, and its session {row.session_id} is open"


def transcripts_are_valid_requests(contents: StoreContents) -> Iterator[str]:
    """H7: every transcript is valid for a provider, and so was every request."""
    if contents.refused_by_model:
        yield f"the model refused {contents.refused_by_model} requests as invalid"
    for session_id, messages in contents.transcripts.items():
        for why in projection_problems(project(messages)):
            yield f"the transcript of {session_id}: {why}"


def tool_calls_are_audited_once(contents: StoreContents) -> Iterator[str]:
    """K2: a call's end and its audit row are one commit, even if the process is killed."""
    yield from contents.unaudited


INVARIANTS = (
    messages_are_accepted_once,
    messages_end_with_one_reply,
    replies_arrive_once,
    replies_have_the_right_text,
    replies_arrive_in_order,
    effects_happen_once,
    no_turn_is_open,
    sessions_of_single_tasks_have_ended,
    transcripts_are_valid_requests,
    tool_calls_are_audited_once,
)


def _unexpected_ends(contents: StoreContents, ends: frozenset[InboxState]) -> list[str]:
    rows = contents.inbox.values()
    return [f"{r.text!r} ended as {r.state}: {r.reason}" for r in rows if r.state not in ends]


def _inbox_record(row: dict[str, Any]) -> InboxRecord:
    inbound = msgspec.json.decode(row["body"])
    said = {"message_id": inbound["message_id"], "text": inbound["text"]}
    return msgspec.convert({**row, **said, "chat": inbound["source"]["chat_id"]}, InboxRecord)


def _outbox_record(row: dict[str, Any], resends: int) -> OutboxRecord:
    """`resends`: of its parts, where it has any."""
    return msgspec.convert({**row, "resends": row["resends"] + resends}, OutboxRecord)


def _transcripts(rows: StoredRows) -> dict[str, list[Message]]:
    sessions: defaultdict[str, list[Message]] = defaultdict(list)
    for row in sorted(rows.table("messages"), key=lambda row: row["seq"]):
        sessions[row["session_id"]].append(msgspec.json.decode(row["body"], type=Message))
    return dict(sessions)

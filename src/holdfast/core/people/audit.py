"""The audit log: who asked, who allowed it, what was done; its hash chain and its CSV export."""

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256

import msgspec

from holdfast.core.messages.inbox import Inbound, InboxRow
from holdfast.core.messages.source import Author
from holdfast.core.people.approval import OPERATOR

GATEWAY_ACTOR = "gateway"  # the actor of what nobody asked for
UNKNOWN_ACTOR = "unknown"  # the actor of what was asked for before there was an audit
DONE, REFUSED, ASKED = "done", "refused", "asked"

MAX_TEXT_LENGTH = 400  # characters of a word that are kept
_OPERATOR_PLATFORMS = ("api", "web")  # whatever comes from there came with the gateway's own token

AuditValue = str | int | float | bool | None


class AuditKind(StrEnum):
    """What a row is about. The part before the dot is a kind of its own to whoever looks for it."""

    TOOL_CALL = "tool.call"
    APPROVAL_ASKED = "approval.asked"
    APPROVAL_ENDED = "approval.ended"
    PERMISSION_GIVEN = "permission.given"
    PERMISSION_REVOKED = "permission.revoked"
    SENDER_REFUSED = "refused.stranger"
    COMMAND_REFUSED = "refused.command"
    REQUEST_REFUSED = "refused.request"
    COMMAND = "command.given"
    TURN_STOPPED = "turn.stopped"
    MESSAGE_SPOKEN = "message.spoken"
    MESSAGE_SENT = "message.sent"
    DELIVERY_RETRIED = "delivery.retried"
    PAIRING_APPROVED = "pairing.approved"
    PAIRING_DENIED = "pairing.denied"
    PAIRING_REVOKED = "pairing.revoked"
    PAIRING_WRONG_CODE = "pairing.wrong_code"
    SESSION_IMPORTED = "session.imported"
    SESSION_RENAMED = "session.renamed"
    SESSION_SUSPENDED = "session.suspended"
    SESSION_DELETED = "session.deleted"
    JOB_ADDED = "job.added"
    JOB_CHANGED = "job.changed"
    JOB_RUN = "job.run"
    JOB_STOPPED = "job.stopped"
    MEMORY_CHANGED = "memory.changed"
    ACCOUNT_PAUSED = "account.paused"
    ACCOUNT_RESUMED = "account.resumed"
    PROCESS_KILLED = "process.killed"
    TOKEN_ADDED = "token.added"
    TOKEN_REVOKED = "token.revoked"
    GATEWAY_LEFT = "gateway.left"
    CONFIGURATION_CHANGED = "configuration.changed"
    BACKUP_MADE = "backup.made"
    BACKUP_RESTORED = "backup.restored"
    AUDIT_EXPORTED = "audit.exported"
    AUDIT_PRUNED = "audit.pruned"


def audit_kinds() -> list[str]:
    """What can be looked for: each part before a dot, and behind it the whole ones."""
    parts = dict.fromkeys(kind.partition(".")[0] for kind in AuditKind)
    return [each for part in parts for each in (part, *_kinds_within(part))]


def _kinds_within(part: str) -> list[str]:
    return [kind.value for kind in AuditKind if kind.startswith(f"{part}.")]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is to be written, in the commit of what it tells of.

    `facts` stay as long as the row. `words` are what people or agents said: kept without secrets
    and cut short, and forgotten with the session that they were said in.
    """

    kind: AuditKind
    actor: str
    at: float
    session_id: str | None = None
    turn_id: str | None = None
    subject: str = ""  # what it was done to, or with
    outcome: str = DONE
    facts: Mapping[str, AuditValue] = {}
    words: Mapping[str, str] = {}


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as it is read. `words` None: there are none; `forgotten`: there were."""

    seq: int
    at: float
    kind: str
    actor: str
    session_id: str | None
    turn_id: str | None
    subject: str
    outcome: str
    facts: Mapping[str, AuditValue]
    words: Mapping[str, str] | None
    forgotten: bool
    hash: str


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are wanted; "" and None: whatever they are. `kind`: a whole one, or the part
    before the dot; `actor`: those that have it in them; `text`: wherever it stands."""

    kind: str = ""
    actor: str = ""
    session: str = ""
    turn: str = ""
    text: str = ""
    after: int | None = None
    before: int | None = None
    since: float | None = None


class AuditChainLink(msgspec.Struct, frozen=True, kw_only=True):
    """What the next row is chained by: the number and the hash of the one before it."""

    seq: int
    hash: bytes


class AuditCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of checking the chain: how many rows hold together, from which to which, and the
    hash of the last. `broken`: what is wrong, and where; empty: nothing."""

    rows: int
    first: int
    last: int
    head: str
    forgotten: int  # rows whose words went with their session
    broken: tuple[str, ...] = ()


def actor_of(inbound: Inbound) -> str:
    """By whom a message is: a person of a platform, whoever runs the gateway, or a job."""
    source, child = inbound.source, inbound.subagent
    if inbound.run is not None:
        return f"job:{inbound.run.job_id}"
    if child is not None:
        return actor_of_principal(child.principal)
    if source.author is Author.OPERATOR or source.platform in _OPERATOR_PLATFORMS:
        return OPERATOR
    # Where people choose what they are called, nobody can be called like two.
    return f"{source.platform}:{source.account}:{source.user_id}".replace(", ", ",")


def actor_of_principal(principal: str) -> str:
    """As who somebody stands in the audit; the owner of the page and of the API is one person."""
    return OPERATOR if principal.partition(":")[0] in _OPERATOR_PLATFORMS else principal


def requesters_of(rows: Iterable[InboxRow]) -> str:
    """By whom these messages are, each named once."""
    return ", ".join(dict.fromkeys(actor_of(row.inbound) for row in rows))


def truncate_text(text: str, *, length: int) -> str:
    """The beginning of a text, and how long the whole of it is."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return f"{text[:MAX_TEXT_LENGTH]}… ({length:,} characters)"


def salted_digest(salt: str, words: str) -> str:
    """What a row keeps of its words. Salted, and the salt goes with the words: nobody can try
    afterwards which ones they were."""
    return sha256(f"{salt}{words}".encode()).hexdigest()


def chain_hash(previous: bytes, *row: AuditValue) -> bytes:
    """The hash of a row: over all of it, and over the hash of the row before."""
    return sha256(msgspec.json.encode((previous.hex(), *row))).digest()


_CSV_COLUMNS = (
    "seq",
    "time",
    "kind",
    "actor",
    "session",
    "turn",
    "subject",
    "outcome",
    "detail",
    "forgotten",
    "hash",
)
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def format_csv_row(row: AuditRow) -> str:
    detail = {**row.facts, **(row.words or {})}
    time = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="milliseconds")
    texts = (
        row.kind,
        row.actor,
        row.session_id or "",
        row.turn_id or "",
        row.subject,
        row.outcome,
        msgspec.json.encode(detail).decode() if detail else "",
        "yes" if row.forgotten else "",
        row.hash,
    )
    return _csv_line((str(row.seq), time, *map(_escape_formula, texts)))


def _escape_formula(text: str) -> str:
    """What begins like a formula would be one, and may come from anybody who talks here."""
    return f"'{text}" if text.startswith(_FORMULA_PREFIXES) else text


def _csv_line(cells: tuple[str, ...]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


CSV_HEADER = _csv_line(_CSV_COLUMNS)

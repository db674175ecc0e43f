"""The audit log: who asked, who allowed it, what was done; its hash chain and its CSV export."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256

import msgspec

from holdfast.core.messages.inbox import Inbound, InboxRow
from holdfast.core.messages.source import Author
from holdfast.core.people.api_tokens import is_owner, is_owner_principal
from holdfast.core.people.approval import OPERATOR

GATEWAY_ACTOR = "gateway"  # the actor of what the gateway does by itself
AGENT_ACTOR = "agent"  # the actor of what a program does that an agent has started
UNKNOWN_ACTOR = "unknown"  # the actor of requests from before there was an audit log
DONE, REFUSED, ASKED = "done", "refused", "asked"

MAX_TEXT_LENGTH = 400  # characters of a text that are stored

AuditValue = str | int | float | bool | None


class AuditKind(StrEnum):
    """What a row is about. A search may also use the part before the dot alone."""

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
    NETWORK_CONTACT = "network.contact"
    GATEWAY_LEFT = "gateway.left"
    CONFIGURATION_CHANGED = "configuration.changed"
    BACKUP_MADE = "backup.made"
    BACKUP_RESTORED = "backup.restored"
    AUDIT_EXPORTED = "audit.exported"
    AUDIT_PRUNED = "audit.pruned"


def audit_kinds() -> list[str]:
    """What can be searched for: each part before a dot, followed by its full kinds."""
    parts = dict.fromkeys(kind.partition(".")[0] for kind in AuditKind)
    return [each for part in parts for each in (part, *_kinds_within(part))]


def _kinds_within(part: str) -> list[str]:
    return [kind.value for kind in AuditKind if kind.startswith(f"{part}.")]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A row to write, in the commit of the action that it records.

    `facts` stay as long as the row. `words` are texts of people or agents: stored without secrets,
    truncated, and deleted with their session; `whole_words` are not truncated.
    """

    kind: AuditKind
    actor: str
    at: float
    session_id: str | None = None
    turn_id: str | None = None
    subject: str = ""  # the object of the action
    outcome: str = DONE
    facts: Mapping[str, AuditValue] = {}
    words: Mapping[str, str] = {}
    whole_words: Mapping[str, str] = {}


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored row. `words` None: there are none; `forgotten`: they were deleted."""

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
    """Selects rows; "" and None: no condition. `kind`: a full kind, or the part before the dot;
    `actor`: a substring; `text`: a substring of any field."""

    kind: str = ""
    actor: str = ""
    session: str = ""
    turn: str = ""
    text: str = ""
    after: int | None = None
    before: int | None = None
    since: float | None = None


class AuditChainLink(msgspec.Struct, frozen=True, kw_only=True):
    """The number and hash of the last row, which the next row is chained to."""

    seq: int
    hash: bytes


class AuditCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying the chain: the number of valid rows, the first, the last and the hash
    of the last. `broken`: the errors with their place; empty: none."""

    rows: int
    first: int
    last: int
    head: str
    forgotten: int  # rows whose texts were deleted with their session
    broken: tuple[str, ...] = ()


def actor_of(inbound: Inbound) -> str:
    """The actor of a message: a person on a platform, the operator, or a job."""
    source, subagent = inbound.source, inbound.subagent
    if inbound.run is not None:
        return f"job:{inbound.run.job_id}"
    if subagent is not None:
        return actor_of_principal(subagent.principal)
    if source.author is Author.OPERATOR or is_owner(source.platform, source.user_id):
        return OPERATOR
    # Where people choose their own ids, one id must not look like two of a list.
    return f"{source.platform}:{source.account}:{source.user_id}".replace(", ", ",")


def actor_of_principal(principal: str) -> str:
    """The actor of a principal; those of the page and of the owner's token are the operator."""
    return OPERATOR if is_owner_principal(principal) else principal


def requesters_of(rows: Iterable[InboxRow]) -> str:
    """The actors of these messages, each named once."""
    return ", ".join(dict.fromkeys([actor_of(row.inbound) for row in rows]))


def truncate_text(text: str, *, length: int) -> str:
    """The beginning of a text, followed by its full length."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return f"{text[:MAX_TEXT_LENGTH]}… ({length:,} characters)"


def salted_digest(salt: str, words: str) -> str:
    """The hash of a row's texts. The salt is deleted with the texts, so that they cannot be guessed
    from the hash afterwards."""
    return sha256(f"{salt}{words}".encode()).hexdigest()


def chain_hash(previous: bytes, *row: AuditValue) -> bytes:
    """The hash of a row, over all its fields and the hash of the row before."""
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


def csv_header() -> str:
    return _csv_line(_CSV_COLUMNS)


def format_csv_row(row: AuditRow) -> str:
    """One CSV line, safe to open in a spreadsheet."""
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
    """Neutralise text that a spreadsheet would run as a formula: any sender may have written it."""
    return f"'{text}" if text.startswith(_FORMULA_PREFIXES) else text


def _csv_line(cells: tuple[str, ...]) -> str:
    import csv  # noqa: PLC0415 - for an export alone
    import io  # noqa: PLC0415 - for an export alone

    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()

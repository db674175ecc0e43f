"""A store that records the owners of the rows that each command writes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import apsw

from holdfast.core.people.approval import ApprovalRequest
from holdfast.core.people.pairing import RefusedMessage
from holdfast.core.ports import store_commands as c
from holdfast.core.ports.command import Command
from holdfast.core.ports.store import HomeStore
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.core.turns.turn import BeginTurn
from holdfast.store.sqlite.store import SqliteStore

T = TypeVar("T")


class TouchedRow(NamedTuple):
    """A row that a write has inserted, changed or deleted, by what it is of: "session:s",
    "account:sim:default" or "person:p"."""

    table: str
    owner: str
    deleted: bool = False


class TrackedWrite(NamedTuple):
    """A write. A row that passes from one owner to another is there once for each; one that passes
    between a session and an account is the session's."""

    name: str
    command: Command[Any] | None  # None: a statement of a test
    rows: frozenset[TouchedRow]

    @property
    def sessions(self) -> set[str]:
        owners = (row.owner.partition(":") for row in self.rows)
        return {key for kind, _, key in owners if kind == "session"}

    @property
    def of_others(self) -> set[TouchedRow]:
        """The rows whose owner is none of those that the command names."""
        scopes = () if self.command is None else self.command.scope.owners
        named = {f"{scope.kind}:{scope.key}" for scope in scopes}
        return {row for row in self.rows if row.owner not in named}


class TrackingStore(HomeStore, Protocol):
    """Records in `tracked` what each write changed, in commit order."""

    tracked: list[TrackedWrite]

    async def __aenter__(self) -> "TrackingStore": ...


# Commands that may name several sessions. The commit of such a command needs the owners of all of
# them: a store on several machines checks the epoch of each in the transaction.
LEADING = {BeginTurn, c.OpenNewSession, CommandEffect, c.AddDeliveries, c.RecordReady}
LEADING |= {ApprovalRequest}  # a subagent asks in the chat of the conversation that it works for
LEADING |= {c.ReportFailedDelivery}  # to the agent that sent it, and to that of the chat
# Commands that remove old rows of every owner. They name none, which is inherent: which rows are
# old, only the commit knows. Each of those rows has ended and stands alone, and no owner changes
# one after its end. So each machine may remove those that it stores, without a check of owners.
PRUNING = {c.PruneInbox, c.PruneOutbox, c.PruneRuns}
# Rows of others that a command tidies up. With a session go the replies to its commands, which are
# the account's, and its id in standing rules of persons; with a request for pairing, expired ones.
TIDYING = {
    (RefusedMessage, "pairing_requests"),
    (c.DeleteSession, "outbox"),
    (c.DeleteSession, "parts"),
    (c.DeleteSession, "approval_rules"),
}


def wrong_writes(writes: Iterable[TrackedWrite]) -> dict[str, set[str]]:
    """The tables in which a command touches rows whose owner it does not name."""
    found: dict[str, set[str]] = {}
    for write in writes:
        kind = type(write.command)
        if kind in PRUNING:
            continue
        several = write.command is not None and len(write.command.scope.sessions) > 1
        assert kind in LEADING or not several
        wrong = {row.table for row in write.of_others if not _tidies(kind, row)}
        if wrong:
            found.setdefault(write.name, set()).update(wrong)
    return found


def _tidies(kind: type[Any], row: TouchedRow) -> bool:
    """A refused message may only delete such a row: its own request is new."""
    return (kind, row.table) in TIDYING and (row.deleted or kind is not RefusedMessage)


# Who owns a row, as SQL over the row `r`; NULL: the gateway. A table that is missing here is an
# error: decide whose its rows are (decision 55).
_SESSION = "'session:' || r.session_id"
_PERSON = "'person:' || r.principal"
_NOTEBOOK = "'person:' || r.owner"
_ACCOUNT = "'account:' || r.platform || ':' || r.account"
_ADDRESSED = (
    "'account:' || json_extract({0}.address, '$.platform')"
    " || ':' || json_extract({0}.address, '$.account')"
)
OWNERS: Mapping[str, str] = {
    "sessions": "'session:' || r.id",
    # One that points to a session which goes on no more may be pointed elsewhere by the next alone.
    "routes": "(SELECT 'session:' || s.id FROM main.sessions s WHERE s.id = r.session_id"
    " AND s.ended_at IS NULL AND NOT s.suspended)",
    **dict.fromkeys(("prompts", "messages", "undone", "compactions", "busy", "taints"), _SESSION),
    **dict.fromkeys(("turns", "steps", "approvals", "children", "unsynced"), _SESSION),
    **dict.fromkeys(
        ("remembered", "unreported_ends", "auxiliary", "runners", "processes"), _SESSION
    ),
    **dict.fromkeys(("usage_counted", "added_usage", "model_usage", "audit_words"), _SESSION),
    "inbox": f"coalesce({_SESSION}, iif(r.platform = '{INTERNAL_PLATFORM}', NULL, {_ACCOUNT}))",
    "outbox": f"coalesce({_SESSION}, {_ADDRESSED.format('r')})",
    "parts": f"coalesce({_SESSION}, (SELECT {_ADDRESSED.format('o')} FROM main.outbox o"
    " WHERE o.id = r.delivery_id))",
    **dict.fromkeys(("cursors", "homes", "quiet_chats"), _ACCOUNT),
    **dict.fromkeys(("jobs", "pairing_requests", "principals"), _PERSON),
    **dict.fromkeys(("notebooks", "notes"), _NOTEBOOK),
    "job_runs": "(SELECT 'person:' || j.principal FROM main.jobs j WHERE j.id = r.job_id)",
    "approval_rules": f"iif(r.scope = 'session', {_SESSION}, {_PERSON})",
}
OF_THE_GATEWAY = {
    *("meta", "configurations", "restarts", "minutes", "pairing_tries"),
    *("audit", "audit_pruned", "message_changes"),
    # Counts and sums, which the store keeps itself.
    *("pruned", "row_counts", "counted", "usage_mark", "usage_sums", "summed_usage"),
}


class SqliteTrackingStore(SqliteStore):
    """Implements `TrackingStore` by triggers on every table whose rows have owners."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.tracked: list[TrackedWrite] = []
        self._rows: set[TouchedRow] = set()
        self._queue = self._submit
        self._submit = self._watch
        self._watching = False

    def _watch(
        self,
        work: Callable[[apsw.Cursor], T],
        command: Command[T] | None = None,
        *,
        deferred: bool = False,
    ) -> asyncio.Future[T]:
        name = "a statement" if command is None else type(command).__name__

        def run(cursor: apsw.Cursor) -> T:
            if not self._watching:
                self._install(cursor.connection)
            self._rows.clear()
            result = work(cursor)
            self.tracked.append(TrackedWrite(name, command, frozenset(self._rows)))
            return result

        return self._queue(run, command, deferred=deferred)

    def _install(self, db: apsw.Connection) -> None:
        self._watching = True
        db.create_scalar_function("holdfast_watched", self._record_row, 4)
        found = db.execute(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
        )
        for table in sorted({str(name) for (name,) in found} - OF_THE_GATEWAY):
            owner = OWNERS[table]
            for change, before, after in (
                ("INSERT", "NULL", owner.replace("r.", "new.")),
                ("UPDATE", owner.replace("r.", "old."), owner.replace("r.", "new.")),
                ("DELETE", owner.replace("r.", "old."), "NULL"),
            ):
                db.execute(
                    f"CREATE TEMP TRIGGER watched_{table}_{change} AFTER {change} ON main.{table}"
                    f" BEGIN SELECT holdfast_watched('{table}', '{change}', {before}, {after}); END"
                )

    def _record_row(self, *found: Any) -> None:
        table, change, before, after = found
        owners = {owner for owner in (before, after) if owner}
        if any(map(_is_account, owners)) and not all(map(_is_account, owners)):
            owners = {owner for owner in owners if not _is_account(owner)}
        self._rows |= {TouchedRow(table, owner, change == "DELETE") for owner in owners}


def _is_account(owner: str) -> bool:
    return owner.startswith("account:")

"""Which function answers which query, and the store's half that reads.

Queries run on the reader thread, never on the writer. Long ones are read in several pieces, so that
others do not wait long behind them.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from apsw import Cursor

from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.ops.stats import sum_usage
from holdfast.core.people.audit import AuditCheckResult
from holdfast.core.ports import store_queries as q
from holdfast.core.ports.command import Query
from holdfast.core.turns.timeline import TurnQuery
from holdfast.core.turns.turn import Usage
from holdfast.store.sqlite.reader import ReaderThread
from holdfast.store.sqlite.reads import approvals, audit, inbox, jobs, outbox, sessions, turns
from holdfast.store.sqlite.writes import (
    audit_log,
    gateway_state,
    gateway_stops,
    memory,
    pairing,
    session_state,
)

R = TypeVar("R")
Q = TypeVar("Q", bound=Query[Any])

Handler = Callable[[Cursor, Any], Any]

_CHUNK = 1000  # rows per read


class SqliteStoreReader:
    """Implements the `StoreReader` port over a reader thread that it does not own."""

    def __init__(self, reader: ReaderThread) -> None:
        self._read = reader.read
        self._long_reads: dict[type[Query[Any]], Callable[[Any], Awaitable[Any]]] = {
            q.GetTurnUsageByModel: self._turn_usage_by_model,
            q.VerifyAudit: self._verify_audit,
        }

    async def read(self, query: Query[R]) -> R:
        handler = QUERY_HANDLERS.get(type(query))
        if handler is None:
            result: R = await self._long_reads[type(query)](query)
            return result
        found: R = await self._read(lambda cursor: handler(cursor, query))
        return found

    async def _turn_usage_by_model(self, query: q.GetTurnUsageByModel) -> Mapping[str, Usage]:
        pieces: list[Mapping[str, Usage]] = []
        after = 0
        while True:
            piece, last = await self._read(
                partial(turns.usage_by_model, turn_id=query.turn_id, after=after, limit=_CHUNK)
            )
            pieces.append(piece)
            if last < after + _CHUNK:
                return sum_usage(pieces)
            after = last

    async def _verify_audit(self, _: q.VerifyAudit) -> AuditCheckResult:
        first = last = await self._read(audit_log.pruned_link)
        rows = forgotten = 0
        broken: list[str] = []
        while (
            piece := await self._read(partial(audit.verify_chain, behind=last, limit=_CHUNK))
        ).rows:
            last, rows, forgotten = piece.last, rows + piece.rows, forgotten + piece.forgotten
            broken += piece.broken
        broken += await self._read(audit.unrecorded_pruning)
        return AuditCheckResult(
            rows=rows,
            first=first.seq + 1,
            last=last.seq,
            head=last.hash.hex(),
            forgotten=forgotten,
            broken=tuple(broken),
        )


def _session_previews(cursor: Cursor, query: q.ListSessionPreviews) -> Any:
    from holdfast.store.sqlite.reads import session_stats  # noqa: PLC0415 - for a dashboard only

    return session_stats.session_summaries(cursor, session_ids=query.session_ids)


def _session_usage_by_model(cursor: Cursor, query: q.GetSessionUsageByModel) -> Any:
    from holdfast.store.sqlite.reads import session_stats  # noqa: PLC0415 - as above

    return session_stats.session_usage_by_model(cursor, query.session_id)


def _transcript_stats(cursor: Cursor, query: q.GetTranscriptStats) -> Any:
    from holdfast.store.sqlite.reads import session_stats  # noqa: PLC0415 - as above

    return session_stats.transcript_stats(
        cursor,
        session_id=query.session_id,
        first=query.first,
        last=query.last,
        priced=query.priced,
    )


def _list_outbox(cursor: Cursor, query: q.ListOutbox) -> Any:
    states: list[DeliveryState] = []
    if query.state:
        states = [query.state]
    elif query.unsent:
        states = [state for state in DeliveryState if state is not DeliveryState.SENT]
    return outbox.list_deliveries(
        cursor,
        states=states,
        platform=query.platform,
        before=query.before,
        limit=query.limit,
    )


def _handle(kind: type[Q], handler: Callable[[Cursor, Q], Any]) -> tuple[type[Query[Any]], Handler]:
    """A row of the table. Typed: the fields that a handler uses are those of its query."""
    return kind, handler


QUERY_HANDLERS: Mapping[type[Query[Any]], Handler] = dict(
    (
        # Sessions and routes.
        _handle(q.GetSession, lambda cursor, x: sessions.session(cursor, x.session_id)),
        _handle(
            q.ListSessions,
            lambda cursor, x: sessions.sessions(
                cursor,
                limit=x.limit,
                offset=x.offset,
                q=x.q,
                platform=x.platform,
                include_subagents=x.include_subagents,
                among=x.where,
            ),
        ),
        _handle(q.GetRouteSession, lambda cursor, x: sessions.route(cursor, x.key)),
        _handle(q.GetRouteTarget, lambda cursor, x: session_state.route_target(cursor, x.key)),
        _handle(
            q.ListVisibleSessions,
            lambda cursor, x: sessions.visible_sessions(
                cursor, route=x.route, principal=x.principal, limit=x.limit
            ),
        ),
        _handle(
            q.GetVisibleSession,
            lambda cursor, x: sessions.visible_session(
                cursor, session_id=x.session_id, route=x.route, principal=x.principal
            ),
        ),
        _handle(
            q.ListUnusedSessions,
            lambda cursor, x: sessions.sessions_unused_since(
                cursor, before=x.before, limit=x.limit
            ),
        ),
        _handle(
            q.ListExpiringSessions,
            lambda cursor, x: sessions.expiring_sessions(
                cursor, deadline=x.expires_at, earliest=x.earliest, limit=x.limit
            ),
        ),
        _handle(
            q.ListRecentlyActiveSessions,
            lambda cursor, x: session_state.recently_active_sessions(cursor, x.since),
        ),
        _handle(q.GetBusyMode, lambda cursor, x: session_state.busy_mode(cursor, x.session_id)),
        _handle(q.GetLastSource, lambda cursor, x: sessions.last_source(cursor, x.session_id)),
        _handle(q.GetSessionUsage, lambda cursor, x: sessions.session_usage(cursor, x.session_id)),
        _handle(
            q.GetVisibleUsage,
            lambda cursor, x: sessions.visible_usage(cursor, route=x.route, principal=x.principal),
        ),
        _handle(
            q.GetAuxiliaryUsage, lambda cursor, x: sessions.auxiliary_usage(cursor, x.session_id)
        ),
        _handle(q.ListSessionPreviews, _session_previews),
        _handle(q.GetSessionUsageByModel, _session_usage_by_model),
        # Transcripts.
        _handle(
            q.GetTranscript, lambda cursor, x: sessions.transcript_records(cursor, x.session_id)
        ),
        _handle(q.GetContext, lambda cursor, x: sessions.context(cursor, x.session_id)),
        _handle(
            q.ListRecords,
            lambda cursor, x: sessions.records(
                cursor, session_id=x.session_id, limit=x.limit, after=x.after, before=x.before
            ),
        ),
        _handle(q.GetTranscriptStats, _transcript_stats),
        # Turns.
        _handle(q.GetTurn, lambda cursor, x: sessions.turn(cursor, x.turn_id)),
        _handle(q.GetLastTurn, lambda cursor, x: sessions.last_turn(cursor, x.session_id)),
        _handle(q.ListSteps, lambda cursor, x: sessions.steps(cursor, x.turn_id)),
        _handle(
            q.ListTurns,
            lambda cursor, x: turns.turns_of_session(
                cursor, session_id=x.session_id, limit=x.limit, before=x.before
            ),
        ),
        _handle(TurnQuery, lambda cursor, x: turns.recent_turns(cursor, choice=x)),
        _handle(
            q.GetTurnDetails,
            lambda cursor, x: turns.turn_timeline(
                cursor, turn_id=x.turn_id, after=x.after, limit=x.limit
            ),
        ),
        _handle(q.ListOpenTurns, lambda cursor, _: sessions.open_turns(cursor)),
        _handle(
            q.ListSupersededTurns,
            lambda cursor, x: session_state.turns_superseded_between(
                cursor, session_id=x.session_id, reason=x.reason, since=x.since, until=x.until
            ),
        ),
        # Approvals.
        _handle(q.GetApproval, lambda cursor, x: approvals.approval(cursor, x.approval_id)),
        _handle(
            q.ListApprovals,
            lambda cursor, x: approvals.approvals(
                cursor, limit=x.limit, pending=x.pending, session_id=x.session_id
            ),
        ),
        _handle(
            q.ListApprovalRules,
            lambda cursor, x: approvals.approval_rules(cursor, principal=x.principal, rule=x.rule),
        ),
        # The inbox.
        _handle(q.ListQueuedMessages, lambda cursor, _: inbox.queued_messages(cursor)),
        _handle(
            q.ListInbox,
            lambda cursor, x: inbox.list_messages(
                cursor, state=x.state, offset=x.offset, limit=x.limit
            ),
        ),
        _handle(q.GetInboxRow, lambda cursor, x: inbox.inbox_row(cursor, x.inbox_id)),
        _handle(q.CountInbox, lambda cursor, _: inbox.inbox_counts(cursor)),
        _handle(q.ListOpenMessages, lambda cursor, x: inbox.open_messages(cursor, before=x.before)),
        _handle(
            q.GetCursor,
            lambda cursor, x: inbox.stream_cursor(
                cursor, platform=x.platform, account=x.account, name=x.name
            ),
        ),
        # The outbox.
        _handle(
            q.ListDeliveriesForMessage,
            lambda cursor, x: outbox.deliveries_for_message(cursor, x.inbox_id),
        ),
        _handle(q.GetDelivery, lambda cursor, x: outbox.delivery(cursor, x.delivery_id)),
        _handle(q.ListOutbox, _list_outbox),
        _handle(q.ListUndelivered, lambda cursor, _: outbox.undelivered_rows(cursor)),
        _handle(q.CountOutbox, lambda cursor, _: outbox.outbox_counts(cursor)),
        # Runners, processes and subagents.
        _handle(q.ListRunners, lambda cursor, _: sessions.runners(cursor)),
        _handle(q.ListProcesses, lambda cursor, x: sessions.processes(cursor, x.session_id)),
        _handle(q.GetSubagent, lambda cursor, x: sessions.subagent(cursor, x.session_id)),
        _handle(
            q.ListSubagentsBelow, lambda cursor, x: sessions.subagents_below(cursor, x.session_id)
        ),
        _handle(
            q.GetSubagentsUsage, lambda cursor, x: sessions.subagents_usage(cursor, x.session_id)
        ),
        _handle(q.ListRunningSubagents, lambda cursor, _: sessions.running_subagents(cursor)),
        # Jobs.
        _handle(q.GetJob, lambda cursor, x: jobs.job(cursor, x.job_id)),
        _handle(
            q.ListJobs,
            lambda cursor, x: jobs.jobs(
                cursor, principal=x.principal, limit=x.limit, offset=x.offset
            ),
        ),
        _handle(q.ListDueJobs, lambda cursor, x: jobs.due_jobs(cursor, by=x.by, limit=x.limit)),
        _handle(q.GetNextDueTime, lambda cursor, _: jobs.next_due_job(cursor)),
        _handle(
            q.ListWaitingRuns,
            lambda cursor, x: jobs.waiting_runs(cursor, busy=tuple(x.busy), limit=x.limit),
        ),
        _handle(q.CountWaitingRuns, lambda cursor, x: jobs.count_waiting_runs(cursor, x.job_id)),
        _handle(q.ListRunningRuns, lambda cursor, _: jobs.running_runs(cursor)),
        _handle(q.ListJobRuns, lambda cursor, x: jobs.runs(cursor, x.job_id, limit=x.limit)),
        _handle(q.ListLastRuns, lambda cursor, x: jobs.last_runs(cursor, tuple(x.job_ids))),
        _handle(q.GetJobRun, lambda cursor, x: jobs.job_run(cursor, x.run_id)),
        _handle(
            q.GetFailures,
            lambda cursor, x: outbox.failures(
                cursor, x.since, jobs=jobs.failing_jobs(cursor, since=x.since)
            ),
        ),
        _handle(q.GetWorkload, lambda cursor, _: jobs.workload(cursor)),
        # People.
        _handle(q.GetPairings, lambda cursor, _: pairing.read_pairings(cursor)),
        _handle(q.ListHomeChannels, lambda cursor, _: gateway_stops.home_channels(cursor)),
        _handle(q.ListQuietChats, lambda cursor, _: gateway_state.quiet_chats(cursor)),
        _handle(q.GetNotebook, lambda cursor, x: memory.notebook(cursor, x.owner)),
        _handle(
            q.ListNotebooks,
            lambda cursor, x: memory.notebooks(cursor, limit=x.limit, offset=x.offset),
        ),
        _handle(q.ListMemoryOwners, lambda cursor, _: memory.memory_owners(cursor)),
        _handle(q.GetMemoryOwner, lambda cursor, x: memory.memory_owner(cursor, x.session_id)),
        _handle(
            q.ListUnsyncedTurns,
            lambda cursor, x: memory.unsynced_turns(cursor, provider=x.provider),
        ),
        _handle(
            q.ListUnreportedEnds,
            lambda cursor, x: memory.unreported_ends(cursor, provider=x.provider),
        ),
        _handle(
            q.ListUnendedMemory,
            lambda cursor, x: memory.unended_memory(cursor, limit=x.limit),
        ),
        # The gateway itself.
        _handle(q.ListOpenStops, lambda cursor, _: gateway_stops.open_stops(cursor)),
        _handle(
            q.ListLastStops,
            lambda cursor, x: gateway_stops.last_stops(cursor, x.limit, x.before),
        ),
        _handle(q.GetMeta, lambda cursor, x: sessions.meta(cursor, x.key)),
        _handle(
            q.ListConfigurations,
            lambda cursor, x: gateway_state.list_configurations(
                cursor, before=x.before, limit=x.limit
            ),
        ),
        _handle(
            q.GetConfiguration,
            lambda cursor, x: gateway_state.read_configuration(cursor, number=x.number),
        ),
        _handle(
            q.ListMinuteStats,
            lambda cursor, x: gateway_state.read_minute_stats(cursor, since=x.since),
        ),
        _handle(
            q.ListAudit, lambda cursor, x: audit.list_rows(cursor, where=x.where, limit=x.limit)
        ),
    )
)

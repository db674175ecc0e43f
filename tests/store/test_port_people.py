"""The store's port: approvals, pairing, memory and jobs."""

import pytest
from tests.support.store_chat import ADDRESS, DELIVERY, SESSION, TURN, StoreChat

from holdfast.core.errors import StoreError
from holdfast.core.ids import (
    ApprovalId,
    CallId,
    DeliveryId,
    PrincipalId,
    RuleId,
    SessionId,
    SessionKey,
)
from holdfast.core.jobs.job import (
    JOBS_ACCOUNT,
    Job,
    JobChange,
    JobChangeKind,
    JobId,
    JobSpec,
    NewJob,
    NewRun,
    RunCause,
    RunPlan,
    RunRequest,
    RunState,
)
from holdfast.core.jobs.schedule import Schedule
from holdfast.core.messages.inbox import Accepted, Inbound, InboxEnd, InboxState
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.people.approval import (
    Approval,
    ApprovalDecision,
    ApprovalEnd,
    ApprovalRequest,
    ApprovalRule,
    ApprovalScope,
    ApprovalState,
    RuleMatch,
)
from holdfast.core.people.memory import (
    NoteEdit,
    NoteEditOutcome,
    OwnerId,
    PendingMemorySync,
)
from holdfast.core.people.pairing import (
    PairedUser,
    PairingChange,
    PairingKind,
    PairingRequest,
    RefusedMessage,
    WrongCodes,
)
from holdfast.core.ports import store_commands as c
from holdfast.core.ports import store_queries as q
from holdfast.core.ports.store import Store
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.subagent import INTERNAL_PLATFORM

ANN, BOB = PrincipalId("sim:ann"), PrincipalId("sim:bob")
OWNER = OwnerId("person:sim:ann")
BY_ANN = "ann"


# Approvals.


def approval(name: str, *, number: int = 1) -> Approval:
    return Approval(
        id=ApprovalId(name),
        session_id=SESSION,
        asked_in=SESSION,
        turn_id=TURN,
        call_id=CallId(f"call-{name}"),
        number=number,
        tool="terminal",
        command="rm -rf x",
        rule="rm",
        why="It deletes files.",
        matches=(
            RuleMatch(rule="rm", why="It deletes files.", part="x", target="/srv/x"),
            RuleMatch(rule="root", why="It is root.", part="sudo rm x", target=None),
        ),
        digest="ab" * 32,
        requester=ANN,
        approvers=(BOB,),
        delivery_id=DELIVERY,
        asked_at=3.0 + number,
        deadline=90.0,
    )


def rule(name: str, scope: ApprovalScope, *, at: float = 5.0) -> ApprovalRule:
    return ApprovalRule(
        id=RuleId(name),
        scope=scope,
        session_id=SESSION,
        principal=ANN,
        rule=f"rule {name}",
        target="/srv/data",
        why="It deletes files.",
        by="bob",
        created_at=at,
        expires_at=at + 100,
    )


async def test_an_approval_is_requested_with_its_message_and_decided_once(
    store: Store, chat: StoreChat
) -> None:
    """J3: a decision that names one which has ended changes nothing at all."""
    await chat.begin_turn(await chat.say())
    one, two = approval("one"), approval("two", number=2)
    question = chat.reply(None, kind=DeliveryKind.QUESTION, text="May I?")
    await store.write(
        ApprovalRequest(
            session_id=SESSION, turn_id=TURN, approvals=(one, two), deliveries=(question,), at=4.0
        )
    )
    assert await store.read(q.GetApproval(approval_id=one.id)) == one
    assert await store.read(q.ListApprovals(limit=9, pending=True)) == [two, one]
    assert [row.text for row in await store.read(q.ListUndelivered())] == ["May I?"]
    assert (await store.read(q.GetWorkload())).approvals == 2
    end = ApprovalEnd(id=one.id, state=ApprovalState.DENIED, by="bob", comment="no")
    decision = ApprovalDecision(ends=(end,), session_id=SESSION, at=5.0)
    await store.write(decision)
    ended = await store.read(q.GetApproval(approval_id=one.id))
    assert ended is not None
    assert (ended.state, ended.by, ended.comment, ended.ended_at) == (
        *(ApprovalState.DENIED, "bob", "no"),
        5.0,
    )
    both = (ApprovalEnd(id=two.id, state=ApprovalState.APPROVED), end)
    with pytest.raises(StoreError, match="already ended"):
        await store.write(ApprovalDecision(ends=both, session_id=SESSION, at=6.0))
    assert await store.read(q.ListApprovals(limit=9, pending=True)) == [two]
    listed = await store.read(q.ListApprovals(limit=9, session_id=SessionId("other")))
    assert listed == []


async def test_an_approval_of_a_turn_that_is_not_open_is_refused(store: Store) -> None:
    """J3."""
    ask = ApprovalRequest(
        session_id=SESSION, turn_id=TURN, approvals=(approval("one"),), deliveries=(), at=4.0
    )
    with pytest.raises(StoreError, match="not open"):
        await store.write(ask)
    assert await store.read(q.GetApproval(approval_id=ApprovalId("one"))) is None


async def test_standing_rules_outlive_their_session_where_they_apply_always(
    store: Store, chat: StoreChat
) -> None:
    """J3: one for the session goes with it; each can be revoked once."""
    await chat.begin_turn(await chat.say())
    here, always = rule("here", ApprovalScope.SESSION), rule("always", ApprovalScope.ALWAYS)
    await store.write(ApprovalDecision(rules=(here, always), session_id=SESSION, at=5.0))
    assert {each.id for each in await store.read(q.ListApprovalRules(principal=ANN))} == {
        *("here", "always"),
    }
    assert await store.read(q.ListApprovalRules(principal=BOB)) == []
    assert await store.read(q.ListApprovalRules(rule="rule here")) == [here]
    await store.write(c.DeleteSession(session_id=SESSION))
    (left,) = await store.read(q.ListApprovalRules())
    assert (left.id, left.session_id, left.rule) == ("always", "", always.rule)
    revoked = ApprovalDecision(revoked=(left,), by="ann", at=6.0)
    await store.write(revoked)
    assert await store.read(q.ListApprovalRules()) == []
    with pytest.raises(StoreError, match="approval rule always does not exist"):
        await store.write(revoked)


# Pairing.


def refused(user: str = "bob", *, event: str = "1") -> RefusedMessage:
    source = Source(platform="sim", chat_id="c", user_id=user)
    notice = NewDelivery(
        id=DeliveryId(f"code-{user}-{event}"),
        address=ADDRESS,
        kind=DeliveryKind.CODE,
        text="Your code is ABCDEFGH",
    )
    return RefusedMessage(
        inbound=Inbound(source=source, event_id=event, message_id=event, text=""),
        route=SessionKey("sim:default:dm:c:"),
        principal=PrincipalId(f"sim:{user}"),
        reason="unknown sender",
        deliveries=(notice,),
        request=PairingRequest(
            principal=PrincipalId(f"sim:{user}"),
            address=ADDRESS,
            user_id=user,
            salt=b"salt",
            digest=b"digest",
            asked_at=1.0,
            expires_at=100.0,
        ),
        at=1.0,
    )


async def test_a_refused_message_is_stored_with_its_code_and_its_request(store: Store) -> None:
    """G3: its row is born ended; a repeated event writes nothing."""
    message = refused()
    accepted = await store.write(message)
    row = await store.read(q.GetInboxRow(inbox_id=accepted.row.id))
    assert row is not None
    assert (row.state, row.reason, row.ended_at) == (InboxState.REFUSED, "unknown sender", 1.0)
    (code,) = await store.read(q.ListDeliveriesForMessage(inbox_id=row.id))
    assert code.text == "Your code is ABCDEFGH"
    assert (await store.read(q.GetPairings())).requests == (message.request,)
    assert (await store.write(message)).duplicate
    assert len(await store.read(q.ListUndelivered())) == 1


async def test_a_pairing_request_is_approved_or_denied_once(store: Store) -> None:
    """G3: and an approved person stays until they are revoked."""
    for number, user in enumerate(("bob", "carl")):
        await store.write(refused(user, event=str(number)))
    person = PairedUser(
        principal=BOB, address=ADDRESS, user_id="bob", since=2.0, let_in_by=PrincipalId("ann")
    )
    welcome = NewDelivery(
        id=DeliveryId("welcome"), address=ADDRESS, kind=DeliveryKind.NOTICE, text="Welcome"
    )
    approve = PairingChange(
        kind=PairingKind.APPROVE, user=person, by=BY_ANN, deliveries=(welcome,), at=2.0
    )
    await store.write(approve)
    with pytest.raises(StoreError, match="request no longer exists"):
        await store.write(approve)
    carl = PrincipalId("sim:carl")
    await store.write(PairingChange(kind=PairingKind.DENY, principal=carl, by=BY_ANN, at=3.0))
    wrong = WrongCodes(count=2, locked_until=50.0)
    await store.write(PairingChange(kind=PairingKind.WRONG, wrong=wrong, by=BY_ANN, at=4.0))
    pairings = await store.read(q.GetPairings())
    assert (pairings.users, pairings.wrong) == ((person,), wrong)
    assert [(each.principal, each.digest) for each in pairings.requests] == [(carl, b"")]
    assert "Welcome" in {row.text for row in await store.read(q.ListUndelivered())}
    await store.write(PairingChange(kind=PairingKind.REVOKE, principal=BOB, by=BY_ANN, at=5.0))
    assert (await store.read(q.GetPairings())).users == ()


# Memory.


def note(action: str, **more: object) -> NoteEdit:
    return NoteEdit(action=action, owner=OWNER, at=1.0, **{"max_chars": 100, **more})  # type: ignore[arg-type]


async def test_a_notebook_holds_what_fits_until_it_is_switched_off(store: Store) -> None:
    """K2: an edit that is not possible writes nothing, and says why."""
    assert (await store.read(q.GetNotebook(owner=OWNER))).notes == ()
    tea = await store.write(note("add", text="likes tea"))
    assert tea.note is not None
    assert (tea.outcome, tea.note.id, tea.notebook.used) == (NoteEditOutcome.DONE, 1, 9)
    assert (await store.write(note("add", text="likes tea"))).outcome is NoteEditOutcome.UNCHANGED
    assert (await store.write(note("add", text="x" * 92))).outcome is NoteEditOutcome.FULL
    assert (await store.write(note("remove", note_id=7))).outcome is NoteEditOutcome.MISSING
    await store.write(note("replace", note_id=1, text="likes coffee"))
    assert [each.text for each in (await store.read(q.GetNotebook(owner=OWNER))).notes] == [
        "likes coffee"
    ]
    await store.write(note("off"))
    assert (await store.write(note("add", text="more"))).outcome is NoteEditOutcome.OFF
    assert await store.read(q.ListMemoryOwners()) == {OWNER: True}
    (book,) = await store.read(q.ListNotebooks(limit=9))
    assert (book.owner, book.off, len(book.notes)) == (OWNER, True, 1)
    await store.write(note("clear"))
    await store.write(note("on"))
    assert await store.read(q.ListNotebooks(limit=9)) == []
    assert await store.read(q.ListMemoryOwners()) == {OWNER: False}


async def test_a_memory_provider_is_told_of_each_turn_and_each_end_once(
    store: Store, chat: StoreChat
) -> None:
    """K2: the first owner of a session stays its owner."""
    row = await chat.say("remember the milk")
    await chat.begin_turn(row)
    for owner in (OWNER, OwnerId("person:other")):
        await store.write(c.EnableMemory(session_id=SESSION, owner=owner))
    assert await store.read(q.GetMemoryOwner(session_id=SESSION)) == OWNER
    assert await store.read(q.GetMemoryOwner(session_id=SessionId("other"))) is None
    memory = PendingMemorySync(owner=OWNER, providers=("notes",))
    reply = AssistantMessage(text="I will", model="m")
    await store.write(chat.turn_end(row, messages=(reply,), memory=memory))
    (turn,) = await store.read(q.ListUnsyncedTurns(provider="notes"))
    assert (turn.turn_id, turn.user_text, turn.answer) == (TURN, "remember the milk", "I will")
    assert (turn.subject.session_id, turn.subject.owner) == (SESSION, OWNER)
    assert await store.read(q.ListUnsyncedTurns(provider="other")) == []
    claim = c.ClaimMemoryTurn(session_id=SESSION, turn_id=TURN, provider="notes")
    assert [await store.write(claim), await store.write(claim)] == [True, False]
    assert await store.read(q.ListUnsyncedTurns(provider="notes")) == []


async def test_an_end_is_unreported_until_its_provider_has_processed_it(
    store: Store, chat: StoreChat
) -> None:
    """C5: an end is requested once after each activity; a later one replaces one that is
    unreported, and is not removed by the report of the earlier one."""
    row = await chat.say("remember the milk")
    await chat.begin_turn(row)
    await store.write(c.EnableMemory(session_id=SESSION, owner=OWNER))
    ((session_id, active_at),) = await store.read(q.ListUnendedMemory(limit=9))
    assert session_id == SESSION and active_at > 0
    request = c.RequestMemoryEnd(session_id=SESSION, providers=("notes", "other"))
    first = await store.write(request)
    assert first is not None and (first.session_id, first.owner) == (SESSION, OWNER)
    assert await store.write(request) is None
    assert await store.read(q.ListUnendedMemory(limit=9)) == []
    assert await store.read(q.ListUnreportedEnds(provider="notes")) == [first]

    await store.write(c.EnableMemory(session_id=SESSION, owner=OWNER))
    assert await store.write(request) is None, "nothing was said"
    await store.write(chat.turn_end(row, messages=(AssistantMessage(text="I will", model="m"),)))
    await store.write(c.EnableMemory(session_id=SESSION, owner=OWNER))
    second = await store.write(request)
    assert second is not None and second.end_id != first.end_id
    for end, left in ((first, [second]), (second, [])):
        report = c.RecordMemoryEnd(session_id=SESSION, provider="notes", end_id=end.end_id)
        await store.write(report)
        assert await store.read(q.ListUnreportedEnds(provider="notes")) == left
    assert await store.read(q.ListUnreportedEnds(provider="other")) == [second]


async def test_no_end_is_requested_while_its_owner_has_turned_memory_off(
    store: Store, chat: StoreChat
) -> None:
    await chat.begin_turn(await chat.say("remember the milk"))
    await store.write(c.EnableMemory(session_id=SESSION, owner=OWNER))
    await store.write(note("off"))
    request = c.RequestMemoryEnd(session_id=SESSION, providers=("notes",))
    assert await store.write(request) is None
    await store.write(note("on"))
    assert await store.write(request) is None, "what was said meanwhile stays out"


# Jobs.


def new_job(key: str = "k", *, due: int = 100) -> NewJob:
    spec = JobSpec(
        name=f"job {key}",
        text="look",
        schedule=Schedule(text="every minute", every=60),
        source=Source(platform="sim", chat_id="c", user_id="ann"),
    )
    return NewJob(key=key, principal=ANN, spec=spec, next_due=due, at=1.0)


async def added(store: Store, key: str = "k", *, due: int = 100) -> Job:
    job = await store.write(c.AddJob(new=new_job(key, due=due), limit=5))
    assert job is not None
    return job


def run_of(job: Job, name: str, *, due: int = 100, cause: RunCause = RunCause.DUE) -> NewRun:
    return NewRun(id=name, job_id=job.id, cause=cause, due_at=due)


def plan(job: Job, *runs: NewRun, **more: object) -> RunPlan:
    return RunPlan(job_id=job.id, principal=ANN, runs=runs, at=101.0, **more)  # type: ignore[arg-type]


async def begin_run(store: Store, job: Job, name: str) -> Accepted:
    source = Source(platform=INTERNAL_PLATFORM, account=JOBS_ACCOUNT, chat_id=name, user_id="ann")
    request = RunRequest(id=name, job_id=job.id, name=job.spec.name, due_at=100)
    return await store.write(
        c.AcceptMessage(
            inbound=Inbound(
                source=source, event_id=name, message_id=name, text="look", run=request
            ),
            route=SessionKey(f"{INTERNAL_PLATFORM}:jobs:{name}"),
            principal=ANN,
            at=102.0,
        )
    )


async def test_a_job_is_added_once_and_within_the_limit(store: Store) -> None:
    """J4: a repeated request finds the job that it has added."""
    job = await added(store)
    assert await added(store) == job
    assert await store.write(c.AddJob(new=new_job("more"), limit=1)) is None
    other = await added(store, "other", due=50)
    assert await store.read(q.GetJob(job_id=job.id)) == job
    assert await store.read(q.GetJob(job_id=JobId(99))) is None
    assert await store.read(q.ListJobs(limit=9)) == [job, other]
    assert await store.read(q.ListJobs(limit=9, principal=BOB)) == []
    assert await store.read(q.ListDueJobs(by=60.0, limit=9)) == [other]
    assert await store.read(q.GetNextDueTime()) == 50


async def test_a_job_is_paused_resumed_changed_and_removed(store: Store) -> None:
    """J4: a paused one is not due; False: there is no such job any more."""
    job = await added(store)

    async def change(kind: JobChangeKind, **more: object) -> bool:
        return await store.write(
            JobChange(job_id=job.id, principal=ANN, kind=kind, **more)  # type: ignore[arg-type]
        )

    assert await change(JobChangeKind.PAUSE)
    assert await store.read(q.GetNextDueTime()) is None
    workload = await store.read(q.GetWorkload())
    assert (workload.jobs, workload.paused_jobs) == (1, 1)
    assert await change(JobChangeKind.RESUME, next_due=200)
    spec = new_job("another").spec
    assert await change(JobChangeKind.UPDATE, spec=spec)
    changed = await store.read(q.GetJob(job_id=job.id))
    assert changed is not None
    assert (changed.spec, changed.next_due, changed.paused) == (spec, 200, False)
    assert await change(JobChangeKind.REMOVE)
    assert not await change(JobChangeKind.PAUSE)
    assert await store.read(q.ListJobs(limit=9)) == []


async def test_runs_are_planned_once_for_a_due_time(store: Store) -> None:
    """J4: a plan that comes too late writes nothing."""
    job = await added(store)
    due = plan(job, run_of(job, "r1"), was_due=100, next_due=160)
    assert await store.write(due)
    assert not await store.write(due)
    assert await store.read(q.GetNextDueTime()) == 160
    assert await store.read(q.CountWaitingRuns(job_id=job.id)) == 1
    (waiting,) = await store.read(q.ListWaitingRuns(busy=[], limit=9))
    assert (waiting.id, waiting.job.id, waiting.due_at) == ("r1", job.id, 100)
    assert await store.read(q.ListWaitingRuns(busy=[job.id], limit=9)) == []
    await store.write(plan(job, run_of(job, "r2", due=110), drop_waiting_reason="replaced"))
    first = await store.read(q.GetJobRun(run_id="r1"))
    assert first is not None
    assert (first.state, first.reason) == (RunState.SKIPPED, "replaced")
    skip = c.SkipRuns(job_id=job.id, principal=ANN, why="paused")
    assert [await store.write(skip), await store.write(skip)] == [1, 0]


async def test_a_run_begins_with_its_message_and_ends_with_it(
    store: Store, chat: StoreChat
) -> None:
    """J4: one that is not waiting any more does not begin."""
    job = await added(store)
    await store.write(plan(job, run_of(job, "r1"), run_of(job, "r2", due=110)))
    await store.write(c.SkipRuns(job_id=job.id, principal=ANN, why="paused", run_id="r2"))
    accepted = await begin_run(store, job, "r1")
    with pytest.raises(StoreError, match="no longer waiting"):
        await begin_run(store, job, "r2")
    assert [row.id for row in await store.read(q.ListRunningRuns())] == [accepted.row.id]
    await chat.begin_turn(accepted, route=accepted.row.route)
    reply = AssistantMessage(text="nothing new", model="m")
    end = InboxEnd(inbox_id=accepted.row.id, state=InboxState.ANSWERED, ends_session=True)
    await store.write(chat.turn_end(inbox_ends=(end,), messages=(reply,)))
    assert await store.read(q.ListRunningRuns()) == []
    runs = await store.read(q.ListJobRuns(job_id=job.id, limit=9))
    assert [(run.id, run.state, run.text) for run in runs] == [
        ("r2", RunState.SKIPPED, ""),
        ("r1", RunState.ANSWERED, "nothing new"),
    ]
    assert (runs[1].session_id, runs[1].turn_id, runs[1].inbox_id) == (
        *(SESSION, TURN),
        accepted.row.id,
    )


async def test_the_last_result_of_a_job_is_read_and_a_failed_one_is_a_failure(
    store: Store, chat: StoreChat
) -> None:
    """J4: a run that was skipped has no result; a paused job is no failure."""
    job = await added(store)
    await store.write(plan(job, run_of(job, "r1"), run_of(job, "r2", due=110)))
    assert await store.read(q.ListLastRuns(job_ids=[job.id])) == {}
    accepted = await begin_run(store, job, "r1")
    await chat.begin_turn(accepted, route=accepted.row.route)
    end = InboxEnd(inbox_id=accepted.row.id, state=InboxState.FAILED, reason="no key")
    await store.write(chat.turn_end(inbox_ends=(end,), messages=()))
    await store.write(c.SkipRuns(job_id=job.id, principal=ANN, why="busy", run_id="r2"))
    last = (await store.read(q.ListLastRuns(job_ids=[job.id, JobId(99)])))[job.id]
    assert (last.id, last.state, last.reason) == ("r1", RunState.FAILED, "no key")
    failures = await store.read(q.GetFailures(since=0.0))
    (failing,) = failures.jobs
    assert (failing.id, failing.name, failing.reason) == (job.id, "job k", "no key")
    pause = JobChange(job_id=job.id, principal=ANN, kind=JobChangeKind.PAUSE)
    await store.write(pause)
    assert (await store.read(q.GetFailures(since=0.0))).jobs == ()


async def test_old_runs_are_pruned_once_they_have_ended(store: Store) -> None:
    """J4: what waits stays."""
    job = await added(store)
    await store.write(plan(job, run_of(job, "old"), run_of(job, "waits", due=110)))
    await store.write(c.SkipRuns(job_id=job.id, principal=ANN, why="paused", run_id="old"))
    assert await store.write(c.PruneRuns(before=50.0)) == 0
    assert await store.write(c.PruneRuns(before=999.0)) == 1
    assert [run.id for run in await store.read(q.ListJobRuns(job_id=job.id, limit=9))] == ["waits"]


async def test_a_command_changes_a_job_with_its_reply(store: Store, chat: StoreChat) -> None:
    """G5: in the commit that ends the row of the command."""
    job = await added(store)
    row = await chat.say("/cron pause 1")
    change = JobChange(job_id=job.id, principal=ANN, kind=JobChangeKind.PAUSE)
    end = InboxEnd(inbox_id=row.row.id, state=InboxState.ANSWERED)
    await store.write(
        CommandEffect(inbox_ends=(end,), source=row.row.inbound.source, job=change, at=3.0)
    )
    paused = await store.read(q.GetJob(job_id=job.id))
    assert paused is not None and paused.paused
    assert (await store.read(q.CountInbox()))[InboxState.ANSWERED] == 1

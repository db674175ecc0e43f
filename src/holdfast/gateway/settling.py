"""Settling in: children and jobs are given their ways into a house that stands."""

import asyncio
from functools import partial

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.ports.protocols import WallClockTimer
from holdfast.gateway.children import SubagentCallbacks, Subagents
from holdfast.gateway.inbound.authorise import AccessPolicy, Action, principal_of
from holdfast.gateway.inbound.intake import GatewayIntake
from holdfast.gateway.jobs.destinations import JobDestinations
from holdfast.gateway.jobs.executor import JobExecutor, RunCallbacks
from holdfast.gateway.jobs.jobs import JobCallbacks
from holdfast.gateway.jobs.scheduler import Scheduler
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.services import Services
from holdfast.gateway.sessions import leaving
from holdfast.gateway.sessions.closing import SessionTeardown
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.turns.lanes import Lanes


def connect_subagents(
    subagents: Subagents,
    services: Services,
    lanes: Lanes,
    *,
    intake: GatewayIntake,
    sessions: SessionStore,
    teardown: SessionTeardown,
    tasks: asyncio.TaskGroup,
) -> None:
    def turn_of(session_id: SessionId) -> TurnId | None:
        lane = lanes.get(session_id)
        return (
            lane.running_turn.turn_id
            if lane is not None and lane.running_turn is not None
            else None
        )

    subagents.set_callbacks(
        SubagentCallbacks(
            accept=intake.accept_authorised,
            on_accepted=intake.on_accepted,
            subscriptions=services.subscriptions,
            watch_message=intake.watch,
            stop_session=partial(leaving.stop_session, services, lanes),
            close_session=teardown.close,
            session_key=sessions.session_key,
            running_turn_of=turn_of,
            tasks=tasks,
        )
    )
    teardown.add([subagents])


def build_scheduler(
    services: Services,
    lanes: Lanes,
    *,
    intake: GatewayIntake,
    sessions: SessionStore,
    teardown: SessionTeardown,
    home_channels: HomeChannels,
    access: AccessPolicy,
    alarm: WallClockTimer,
    tasks: asyncio.TaskGroup,
) -> tuple[JobExecutor, Scheduler]:
    destinations = JobDestinations(services.platforms, home_channels)
    ways = RunCallbacks(
        accept=intake.accept_authorised,
        close_session=teardown.close,
        session_key=sessions.session_key,
        destinations=destinations,
        tasks=tasks,
    )
    runs = JobExecutor(services, lanes, ways, on_ended=lambda: scheduler.wake())
    scheduler = Scheduler(
        services,
        runs,
        alarm=alarm,
        may_talk=lambda source: access.allows(principal_of(source), Action.TALK, source),
    )
    services.jobs.set_callbacks(
        JobCallbacks(
            destinations=destinations,
            is_operator=access.is_operator,
            running_jobs=lambda: runs.running_jobs,
            stop=runs.stop,
            on_changed=scheduler.wake,
            next_due=lambda: scheduler.next_due,
            stop_scheduling=scheduler.close,
        )
    )
    return runs, scheduler

"""Settling in: children and jobs are given their ways into a house that stands."""

import asyncio
from functools import partial

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.ports.protocols import Alarm
from holdfast.gateway.children import Children, Ways
from holdfast.gateway.inbound.authorise import Action, Authority, principal_of
from holdfast.gateway.inbound.intake import Gatehouse
from holdfast.gateway.jobs.destinations import Destinations
from holdfast.gateway.jobs.executor import Runs, RunWays
from holdfast.gateway.jobs.jobs import JobWays
from holdfast.gateway.jobs.scheduler import Scheduler
from holdfast.gateway.notify.home_channels import Homes
from holdfast.gateway.services import House
from holdfast.gateway.sessions import leaving
from holdfast.gateway.sessions.closing import Closing
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.turns.lanes import Lanes


def settle_children(
    children: Children,
    house: House,
    lanes: Lanes,
    *,
    intake: Gatehouse,
    sessions: SessionStore,
    closing: Closing,
    tasks: asyncio.TaskGroup,
) -> None:
    def turn_of(session_id: SessionId) -> TurnId | None:
        lane = lanes.get(session_id)
        return lane.turn.turn_id if lane is not None and lane.turn is not None else None

    children.settle_in(
        Ways(
            keep=intake.keep,
            kept=intake.kept,
            watchers=house.watchers,
            watch=intake.watch,
            stop=partial(leaving.stop, house, lanes),
            close=closing.close,
            key=sessions.key,
            turn_of=turn_of,
            tasks=tasks,
        )
    )
    closing.add([children])


def settle_jobs(
    house: House,
    lanes: Lanes,
    *,
    intake: Gatehouse,
    sessions: SessionStore,
    closing: Closing,
    homes: Homes,
    authority: Authority,
    alarm: Alarm,
    tasks: asyncio.TaskGroup,
) -> tuple[Runs, Scheduler]:
    destinations = Destinations(house.doors, homes)
    ways = RunWays(
        keep=intake.keep,
        close=closing.close,
        key=sessions.key,
        destinations=destinations,
        tasks=tasks,
    )
    runs = Runs(house, lanes, ways, ended=lambda: scheduler.stirred())
    scheduler = Scheduler(
        house,
        runs,
        alarm=alarm,
        may_talk=lambda source: authority.may(principal_of(source), Action.TALK, source),
    )
    house.jobs.settle_in(
        JobWays(
            destinations=destinations,
            operates=authority.operates,
            at_work=lambda: runs.busy,
            stop=runs.stop,
            stirred=scheduler.stirred,
            next_due=lambda: scheduler.next_due,
            leave=scheduler.close,
        )
    )
    return runs, scheduler

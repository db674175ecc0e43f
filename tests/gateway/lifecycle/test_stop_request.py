"""Tests of restart requests: one at a time, checked first, replaced by a more urgent order (C1)."""

import asyncio

import pytest

from holdfast.core.errors import RestartRefused
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest


class RestartHarness:
    """A `RestartController` whose check and idle state a test controls."""

    def __init__(self) -> None:
        self.stop_request = StopRequest()
        self.check_may_finish = asyncio.Event()
        self.idle = asyncio.Event()
        self.refusal = ""
        self.checks = 0
        self.controller = RestartController(
            self.stop_request, check=self._check, wait_until_idle=self._wait_until_idle
        )

    async def _check(self, soon: bool) -> None:
        self.checks += 1
        await self.check_may_finish.wait()
        if self.refusal:
            raise RestartRefused(self.refusal)

    async def _wait_until_idle(self) -> None:
        await self.idle.wait()


@pytest.fixture
def restarts() -> RestartHarness:
    made = RestartHarness()
    made.check_may_finish.set()
    return made


def order(kind: StopKind = StopKind.RESTART, *, now: bool = False) -> StopOrder:
    return StopOrder(kind=kind, by=StopRequester.CLI, at=1.0, now=now)


async def test_a_restart_begins_after_its_check_passed(restarts: RestartHarness) -> None:
    restarts.check_may_finish.clear()
    request = asyncio.create_task(restarts.controller.restart(order()))
    await asyncio.sleep(0)
    assert restarts.stop_request.order is None
    with pytest.raises(RestartRefused, match="a moment ago"):
        await restarts.controller.restart(order())
    restarts.check_may_finish.set()
    await request
    assert restarts.stop_request.order == order()


async def test_a_refused_restart_changes_nothing_and_can_be_requested_again(
    restarts: RestartHarness,
) -> None:
    restarts.refusal = "holdfast.toml, line 3: no"
    with pytest.raises(RestartRefused, match="line 3"):
        await restarts.controller.restart(order())
    assert restarts.stop_request.order is None
    restarts.refusal = ""
    await restarts.controller.restart(order())
    assert restarts.stop_request.order is not None


async def test_a_pending_restart_begins_when_idle_and_cannot_be_requested_twice(
    restarts: RestartHarness,
) -> None:
    await restarts.controller.restart(order(), when_idle=True)
    assert restarts.controller.pending_restart == order() and restarts.stop_request.order is None
    with pytest.raises(RestartRefused, match="already scheduled"):
        await restarts.controller.restart(order(), when_idle=True)
    restarts.idle.set()
    assert await restarts.stop_request.wait() == order()
    assert restarts.controller.pending_restart is None and not restarts.stop_request.urgent.is_set()


async def test_a_pending_restart_is_checked_again_before_it_begins(
    restarts: RestartHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """The configuration may be invalid by then: the running gateway continues."""
    await restarts.controller.restart(order(), when_idle=True)
    restarts.refusal = "holdfast.toml, line 3: no"
    restarts.idle.set()
    async with asyncio.timeout(30):
        while restarts.controller.pending_restart is not None:
            await asyncio.sleep(0)
    assert restarts.stop_request.order is None
    assert "line 3" in caplog.text
    restarts.refusal = ""
    await restarts.controller.restart(order())
    assert restarts.stop_request.order == order()


async def test_a_stop_during_the_second_check_of_a_pending_restart_holds(
    restarts: RestartHarness,
) -> None:
    """C1: the stop replaces the pending restart."""
    await restarts.controller.restart(order(), when_idle=True)
    restarts.check_may_finish.clear()
    restarts.idle.set()
    async with asyncio.timeout(30):
        while restarts.checks < 2:
            await asyncio.sleep(0)
    restarts.controller.stop(order(StopKind.STOP))
    restarts.check_may_finish.set()
    await asyncio.sleep(0.01)  # a pending restart would begin now
    assert restarts.stop_request.order == order(StopKind.STOP)
    assert restarts.controller.pending_restart is None and not restarts.stop_request.urgent.is_set()


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.RESTART])
async def test_an_immediate_order_replaces_a_pending_restart(
    restarts: RestartHarness, kind: StopKind
) -> None:
    await restarts.controller.restart(order(), when_idle=True)
    immediate = order(kind, now=True)
    if kind is StopKind.STOP:
        restarts.controller.stop(immediate)
    else:
        await restarts.controller.restart(immediate)
    assert restarts.stop_request.order == immediate and restarts.controller.pending_restart is None
    restarts.idle.set()
    await asyncio.sleep(0.01)  # a pending restart would begin now
    assert restarts.stop_request.order == immediate


async def test_a_stop_during_the_check_holds_and_a_second_one_hurries_it(
    restarts: RestartHarness,
) -> None:
    """C1: the first order holds; later ones can only hurry it."""
    restarts.check_may_finish.clear()
    request = asyncio.create_task(restarts.controller.restart(order()))
    await asyncio.sleep(0)
    restarts.controller.stop(order(StopKind.SIGNAL))
    assert not restarts.stop_request.urgent.is_set()
    restarts.check_may_finish.set()
    with pytest.raises(RestartRefused, match="already stopping"):
        await request
    restarts.controller.stop(order(StopKind.STOP))
    assert (
        restarts.stop_request.order == order(StopKind.SIGNAL)
        and restarts.stop_request.urgent.is_set()
    )

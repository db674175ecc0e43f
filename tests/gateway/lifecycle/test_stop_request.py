"""Restarting: one wish at a time, checked first, and overtaken by whoever is in more of a hurry."""

import asyncio

import pytest

from holdfast.core.errors import RestartRefused
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest


class Scene:
    def __init__(self) -> None:
        self.departure = StopRequest()
        self.checked = asyncio.Event()
        self.quiet = asyncio.Event()
        self.unfit = ""
        self.checks = 0
        self.lifecycle = RestartController(
            self.departure, check=self._check, wait_until_idle=self._quiet
        )

    async def _check(self, soon: bool) -> None:
        self.checks += 1
        await self.checked.wait()
        if self.unfit:
            raise RestartRefused(self.unfit)

    async def _quiet(self) -> None:
        await self.quiet.wait()


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.checked.set()
    return made


def order(kind: StopKind = StopKind.RESTART, *, now: bool = False) -> StopOrder:
    return StopOrder(kind=kind, by=StopRequester.CLI, at=1.0, now=now)


async def test_a_restart_begins_after_its_check_passed(scene: Scene) -> None:
    scene.checked.clear()
    asked = asyncio.create_task(scene.lifecycle.restart(order()))
    await asyncio.sleep(0)
    assert scene.departure.order is None
    with pytest.raises(RestartRefused, match="a moment ago"):
        await scene.lifecycle.restart(order())
    scene.checked.set()
    await asked
    assert scene.departure.order == order()


async def test_a_refused_restart_changes_nothing_and_can_be_requested_again(
    scene: Scene,
) -> None:
    scene.unfit = "holdfast.toml, line 3: no"
    with pytest.raises(RestartRefused, match="line 3"):
        await scene.lifecycle.restart(order())
    assert scene.departure.order is None
    scene.unfit = ""
    await scene.lifecycle.restart(order())
    assert scene.departure.order is not None


async def test_a_pending_restart_begins_when_idle_and_cannot_be_requested_twice(
    scene: Scene,
) -> None:
    await scene.lifecycle.restart(order(), when_idle=True)
    assert scene.lifecycle.pending_restart == order() and scene.departure.order is None
    with pytest.raises(RestartRefused, match="waits already"):
        await scene.lifecycle.restart(order(), when_idle=True)
    scene.quiet.set()
    assert await scene.departure.wait() == order()
    assert scene.lifecycle.pending_restart is None and not scene.departure.urgent.is_set()


async def test_a_pending_restart_is_checked_again_before_it_begins(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The configuration may have been broken since: the running gateway goes on."""
    await scene.lifecycle.restart(order(), when_idle=True)
    scene.unfit = "holdfast.toml, line 3: no"
    scene.quiet.set()
    async with asyncio.timeout(30):
        while scene.lifecycle.pending_restart is not None:
            await asyncio.sleep(0)
    assert scene.departure.order is None
    assert "line 3" in caplog.text
    scene.unfit = ""
    await scene.lifecycle.restart(order())
    assert scene.departure.order == order()


async def test_a_stop_during_the_second_check_of_a_pending_restart_holds(scene: Scene) -> None:
    """C1: whoever overtakes it then takes its place."""
    await scene.lifecycle.restart(order(), when_idle=True)
    scene.checked.clear()
    scene.quiet.set()
    async with asyncio.timeout(30):
        while scene.checks < 2:
            await asyncio.sleep(0)
    scene.lifecycle.stop(order(StopKind.STOP))
    scene.checked.set()
    await asyncio.sleep(0.01)  # what waited would speak up now
    assert scene.departure.order == order(StopKind.STOP)
    assert scene.lifecycle.pending_restart is None and not scene.departure.urgent.is_set()


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.RESTART])
async def test_an_immediate_order_replaces_a_pending_restart(scene: Scene, kind: StopKind) -> None:
    await scene.lifecycle.restart(order(), when_idle=True)
    mine = order(kind, now=True)
    if kind is StopKind.STOP:
        scene.lifecycle.stop(mine)
    else:
        await scene.lifecycle.restart(mine)
    assert scene.departure.order == mine and scene.lifecycle.pending_restart is None
    scene.quiet.set()
    await asyncio.sleep(0.01)  # what waited would speak up now
    assert scene.departure.order == mine


async def test_a_stop_during_the_check_holds_and_a_second_one_hurries_it(
    scene: Scene,
) -> None:
    """C1: the first order stands; what comes after it can only hurry it."""
    scene.checked.clear()
    asked = asyncio.create_task(scene.lifecycle.restart(order()))
    await asyncio.sleep(0)
    scene.lifecycle.stop(order(StopKind.SIGNAL))
    assert not scene.departure.urgent.is_set()
    scene.checked.set()
    with pytest.raises(RestartRefused, match="stopping already"):
        await asked
    scene.lifecycle.stop(order(StopKind.STOP))
    assert scene.departure.order == order(StopKind.SIGNAL) and scene.departure.urgent.is_set()

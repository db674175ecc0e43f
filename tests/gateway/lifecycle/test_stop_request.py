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


async def test_a_restart_begins_when_its_successor_was_found_fit(scene: Scene) -> None:
    scene.checked.clear()
    asked = asyncio.create_task(scene.lifecycle.restart(order()))
    await asyncio.sleep(0)
    assert scene.departure.order is None
    with pytest.raises(RestartRefused, match="a moment ago"):
        await scene.lifecycle.restart(order())
    scene.checked.set()
    await asked
    assert scene.departure.order == order()


async def test_one_that_is_refused_changes_nothing_and_can_be_asked_for_again(
    scene: Scene,
) -> None:
    scene.unfit = "holdfast.toml, line 3: no"
    with pytest.raises(RestartRefused, match="line 3"):
        await scene.lifecycle.restart(order())
    assert scene.departure.order is None
    scene.unfit = ""
    await scene.lifecycle.restart(order())
    assert scene.departure.order is not None


async def test_one_that_waits_goes_when_it_is_quiet_and_is_not_asked_for_twice(
    scene: Scene,
) -> None:
    await scene.lifecycle.restart(order(), when_idle=True)
    assert scene.lifecycle.pending_restart == order() and scene.departure.order is None
    with pytest.raises(RestartRefused, match="waits already"):
        await scene.lifecycle.restart(order(), when_idle=True)
    scene.quiet.set()
    assert await scene.departure.wait() == order()
    assert scene.lifecycle.pending_restart is None and not scene.departure.hurried.is_set()


async def test_one_that_waited_is_checked_again_before_it_goes(
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


async def test_a_stop_while_one_that_waited_is_checked_again_stands(scene: Scene) -> None:
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
    assert scene.lifecycle.pending_restart is None and not scene.departure.hurried.is_set()


@pytest.mark.parametrize("kind", [StopKind.STOP, StopKind.RESTART])
async def test_one_that_waits_is_overtaken(scene: Scene, kind: StopKind) -> None:
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


async def test_a_stop_while_the_successor_is_checked_stands_and_a_second_one_hurries(
    scene: Scene,
) -> None:
    """C1: the first order stands; what comes after it can only hurry it."""
    scene.checked.clear()
    asked = asyncio.create_task(scene.lifecycle.restart(order()))
    await asyncio.sleep(0)
    scene.lifecycle.stop(order(StopKind.SIGNAL))
    assert not scene.departure.hurried.is_set()
    scene.checked.set()
    with pytest.raises(RestartRefused, match="stopping already"):
        await asked
    scene.lifecycle.stop(order(StopKind.STOP))
    assert scene.departure.order == order(StopKind.SIGNAL) and scene.departure.hurried.is_set()

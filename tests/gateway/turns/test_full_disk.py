"""Chapter K, on a full disk: a turn that runs waits for room, and goes on where it was."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_harness import Call, GatewayHarness

from holdfast.core.errors import TransientStoreError
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.scripted_model import USAGE


class Full(SqliteStore):
    """A store whose disk has no room for the next so many steps of a kind."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full: Counter[str] = Counter()
        self.waited_for = asyncio.Event()

    def record_reply(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_reply
        return self._no_room("reply") or write(*arguments, **more)

    def record_started(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_started
        return self._no_room("started") or write(*arguments, **more)

    def record_finished(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_finished
        return self._no_room("finished") or write(*arguments, **more)

    def record_steer(self, *arguments: Any, **more: Any) -> Any:
        write = super().record_steer
        return self._no_room("steer") or write(*arguments, **more)

    def _no_room(self, kind: str) -> asyncio.Future[Any] | None:
        if not self.full[kind]:
            return None
        self.full[kind] -= 1
        self.waited_for.set()
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(TransientStoreError("the disk is full"))
        return failed


@pytest.fixture
async def cramped(harness: GatewayHarness) -> GatewayHarness:
    """The harness, on a disk that may be full."""
    await harness.stop()
    harness.open_store = Full
    await harness.start()
    return harness


@pytest.mark.parametrize("kind", ["reply", "started", "finished"])
async def test_a_turn_waits_for_disk_space_and_then_continues(
    cramped: GatewayHarness, call: Call, kind: str
) -> None:
    """K2, H1: the step that found no room is written later, and nothing is done twice for it."""
    cramped.store.full[kind] = 1
    cramped.model.say([call("never")], "done")
    end = await cramped.end_of(await cramped.accept("work"))
    assert (end.state, end.text) == (InboxState.ANSWERED, "done")
    assert len(cramped.held_tools["never"].started) == 1
    assert len(cramped.model.requests) == 2
    transcript = await cramped.transcript(await cramped.only_session())
    assert [m.outcome for m in transcript if isinstance(m, ToolMessage)] == [ToolOutcome.OK]


async def test_a_reply_that_waited_for_disk_space_is_counted_once(
    cramped: GatewayHarness, call: Call
) -> None:
    """K2: what it has used is what the model has used."""
    cramped.store.full["reply"] = 2
    cramped.model.say([call("safe")], "done")
    ended = await cramped.end_of(await cramped.accept("work"))
    assert ended.usage == USAGE + USAGE


async def test_a_steer_that_waited_for_disk_space_reaches_the_model(
    cramped: GatewayHarness, call: Call
) -> None:
    """G4: it is taken when there is room, before the model is asked again."""
    lever = cramped.held_tools["safe"]
    lever.go.clear()
    cramped.model.say([call("safe")], "faster it is")
    first = await cramped.accept("work")
    await lever.wait_until_started(1)
    await cramped.accept("faster", busy_mode=BusyMode.STEER)
    cramped.store.full["steer"] = 1
    lever.go.set()
    assert (await cramped.end_of(first)).text == "faster it is"
    request = await cramped.model.wait_for_request(2)
    assert request.messages[-1].text == "faster"


@pytest.mark.parametrize("kind", ["reply", "started", "finished"])
async def test_a_turn_that_waits_for_disk_space_can_be_stopped(
    cramped: GatewayHarness, call: Call, kind: str
) -> None:
    """F9, H7: it ends with what the log has of it, and the next turn is one a provider takes."""
    cramped.store.full[kind] = 1000
    cramped.model.say([call("never")], "the next answer")
    first = await cramped.accept("work")
    await cramped.store.waited_for.wait()
    await cramped.accept("/stop")
    assert (await cramped.end_of(first)).state is InboxState.SUPERSEDED
    cramped.store.full.clear()
    assert (await cramped.end_of(await cramped.accept("again"))).text == "the next answer"
    transcript = await cramped.transcript(await cramped.only_session())
    told = {"reply": [], "started": ["not started"], "finished": ["may have had an effect"]}[kind]
    results = [m.text for m in transcript if isinstance(m, ToolMessage)]
    assert len(results) == len(told)
    assert all(words in text.lower() for words, text in zip(told, results, strict=True))

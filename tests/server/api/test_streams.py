"""The events of a session: each record once and in order, whatever is cut; the rest replaceable."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from tests.support.gateway_process import GatewayProcess, NewGateway
from tests.support.held_command import HELD_CALL, release
from tests.support.v1_client import V1, SentEvent

STEPS = (
    "[delay 0.05] [reasoning let me see now]"
    ' [tool terminal {"command": "for i in 1 2 3; do echo $i; sleep 0.2; done"}]'
    " [then] [text all is well here] [delay 0.05]"
)


# Each of the words is a moment, and what is printed is held until it was seen: whoever stands still
# for a while is told of pieces together, and of the step that has ended since as a whole.
SEEN = (
    "[delay 0.1] [reasoning let me see now and think it over once more]"
    ' [tool terminal {"command": "echo 1; until test -e go; do sleep 0.05; done; echo 2;'
    ' until test -e on; do sleep 0.05; done; echo 3"}]'
    " [then] [text all is well here and everywhere else too] [delay 0.1]"
)
GATES = {"go": "1\n", "on": "1\n2\n"}  # files, each to be there once that was seen


class Screen:
    """A client as `docs/http.md` wants it: what it shows after each event."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.live: dict[str, Any] | None = None
        self.session: dict[str, Any] = {}
        self.ended: list[int] = []
        self.names: list[str] = []

    @property
    def seq(self) -> int:
        return int(self.records[-1]["seq"]) if self.records else 0

    def take(self, event: SentEvent) -> None:
        self.names.append(event.name)
        match event.name:
            case "record":
                assert event.id == event.data["seq"] == self.seq + 1, "a gap or a repeat"
                self.records.append(event.data)
                if event.data["message"]["type"] == "assistant" and self.live:
                    self.live["text"] = self.live["reasoning"] = ""
            case "live":
                self.live = event.data
            case "text" | "reasoning":
                assert self.live is not None
                self.live[event.name] += event.data["text"]
            case "tool":
                assert self.live is not None
                calls = {call["call_id"]: call for call in self.live["calls"]}
                calls[event.data["call_id"]]["output"] += event.data["text"]
            case "session":
                self.session = event.data
            case "ended":
                self.ended.append(event.data["id"])
        self.shows_nothing_twice()

    def shows_nothing_twice(self) -> None:
        last = self.records[-1]["message"] if self.records else {}
        if self.live and self.live["text"] and last.get("type") == "assistant":
            assert self.live["text"] not in last["text"]

    async def follow(self, events: AsyncIterator[SentEvent], *, until_ended: int) -> None:
        async for event in events:
            self.take(event)
            if until_ended in self.ended:
                return


async def test_a_turn_is_followed_from_its_first_piece_to_its_end(v1: V1) -> None:
    session, screen, heard = await v1.open(), Screen(), []
    async with v1.events(f"/sessions/{session}/events") as events:
        message = await v1.say(session, SEEN)
        async for event in events:
            screen.take(event)
            if event.name in ("text", "tool", "live") and screen.live:
                outputs = [c["output"] for c in screen.live["calls"]]
                heard.append((screen.live["text"], outputs))
                for gate in [gate for gate in GATES if outputs == [GATES[gate]]]:
                    (v1.gateway.paths.workspaces / session / gate).touch()
            if message in screen.ended:
                break
    kinds = [record["message"]["type"] for record in screen.records]
    assert kinds == ["user", "assistant", "tool", "assistant"]
    printed = [calls[0] for _, calls in heard if calls]
    assert "1\n" in printed and printed[-1].startswith("1\n2\n"), printed
    texts = [text for text, _ in heard]
    assert any(text and "all is well here and everywhere".startswith(text) for text in texts)
    assert {"reasoning", "text", "tool"} <= set(screen.names)
    assert screen.live is None
    assert screen.records == (await v1.get(f"/sessions/{session}/transcript"))["records"]


async def test_who_comes_late_sees_what_the_others_see(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, f"[delay 0.25] [text one two three four {'and on ' * 99}]")
    early, late = Screen(), Screen()
    async with v1.events(f"/sessions/{session}/events") as events:
        async for event in events:
            early.take(event)
            if early.live and "four" in early.live["text"]:
                break
        async with v1.events(f"/sessions/{session}/events") as more:
            async for event in more:
                late.take(event)
                if event.name == "live":
                    break
            assert late.live and "one two three four" in late.live["text"]
            assert late.records == early.records
            await v1.ask("POST", f"/sessions/{session}/stop")
            await asyncio.gather(
                early.follow(events, until_ended=message), late.follow(more, until_ended=message)
            )
    assert early.records == late.records
    assert early.records == (await v1.get(f"/sessions/{session}/transcript"))["records"]


async def test_a_reconnect_gets_exactly_what_was_missed(v1: V1) -> None:
    session = await v1.open()
    for number in range(3):
        await v1.end(await v1.say(session, f"number {number}", f"m{number}"))
    path = f"/sessions/{session}/events"
    for options in ({"params": {"after": 4}}, {"headers": {"Last-Event-ID": "4"}}):
        screen = Screen()
        screen.records = [{"seq": 4, "message": {}}]
        async with v1.events(path, **options) as events:
            async for event in events:
                screen.take(event)
                if event.name == "session":
                    break
        assert [record["seq"] for record in screen.records] == [4, 5, 6]
        assert screen.names == ["record", "record", "live", "session"]
    for wrong in ("x", "-1", "1.5"):
        headers = {"Last-Event-ID": wrong}
        assert (await v1.refused("GET", path, headers=headers))[0] == 400


async def test_a_session_that_is_looked_at_by_many_is_seen_by_all(v1: V1) -> None:
    session = await v1.open()
    screens = [Screen() for _ in range(8)]
    async with contextlib.AsyncExitStack() as stack:
        path = f"/sessions/{session}/events"
        streams = [await stack.enter_async_context(v1.events(path)) for _ in screens]
        message = await v1.say(session, STEPS)
        pairs = zip(screens, streams, strict=True)
        await asyncio.gather(*(s.follow(stream, until_ended=message) for s, stream in pairs))
    assert all(screen.records == screens[0].records for screen in screens)
    assert len(screens[0].records) == 4


async def test_steers_and_what_waits_are_told(v1: V1) -> None:
    session, screen = await v1.open(), Screen()
    queued: list[list[int]] = []
    async with v1.events(f"/sessions/{session}/events") as events:
        first = await v1.say(session, f"{HELD_CALL} [then] [text ok]")
        steer = 0
        async for event in events:
            screen.take(event)
            if not steer and screen.live and screen.live["calls"]:
                steer = await v1.say(session, "faster", "m2", mode="steer")
                release(v1.gateway.paths, session)
            if event.name == "live" and event.data:
                queued.append([message["id"] for message in event.data["queued"]])
                assert not set(queued[-1]) & set(screen.ended), "it was taken, and waits no more"
            if first in screen.ended:
                break
    assert [steer] in queued
    assert screen.ended == [steer, first]


async def test_every_session_that_changes_is_told_to_who_looks_at_all(v1: V1) -> None:
    async with v1.events("/events") as events:
        session = await v1.open()
        message = await v1.say(session, f"hello all {HELD_CALL} [then] [text done]")
        titles = set()
        async for event in events:
            if event.name == "session" and event.data["id"] == session:
                titles.add(event.data["title"][:9])
                if event.data["state"] == "running":  # as long as it takes until that was seen
                    release(v1.gateway.paths, session)
                elif event.data["state"] == "idle" and event.data["messages"] == 4:
                    break
        assert "hello all" in titles
        await v1.end(message)
        await v1.ask("PATCH", f"/sessions/{session}", json={"title": "renamed"})
        async for event in events:
            if event.name == "session" and event.data["title"] == "renamed":
                break


async def test_who_takes_nothing_is_given_the_whole_instead_of_the_pieces(v1: V1) -> None:
    """A slow reader costs a bounded list, and still ends up with everything."""
    session, screen = await v1.open(), Screen()
    async with v1.events(f"/sessions/{session}/events") as events:
        words = " ".join(f"word{number}" for number in range(20_000))
        message = await v1.say(session, f"[text {words}]")
        await v1.end(message)  # and not one event was read until now
        await screen.follow(events, until_ended=message)
    assert screen.records[-1]["message"]["text"] == words
    assert screen.live is None


async def test_a_stop_of_the_gateway_ends_streams_cleanly(new_gateway: NewGateway) -> None:
    gateway = new_gateway().start()
    async with client_of(gateway) as v1:
        session = await v1.open()
        async with v1.events(f"/sessions/{session}/events") as events, v1.events("/events") as all_:
            await v1.say(session, "[delay 0.1] " + "word " * 500)
            async for event in events:
                if event.name == "text":
                    break
            ending = asyncio.get_running_loop().run_in_executor(None, gateway.end)
            names = {event.name async for event in events} | {event.name async for event in all_}
            assert await ending == 0
    assert "ended" not in names


async def test_a_killed_gateway_leaves_no_gap_and_no_repeat(new_gateway: NewGateway) -> None:
    """A client that reconnects after kill -9 sees each record once, and the turn's end."""
    gateway, screen = new_gateway(), Screen()
    step = '[tool terminal {"command": "sleep 0.3; echo step"}] [then] '
    text = step * 4 + "[text finished at last] [delay 0.05]"
    session, message = "", 0
    for kill_at in (2, 5, 7, None):
        gateway.start()
        async with client_of(gateway) as v1:
            session = session or await v1.open()
            message = message or await v1.say(session, text)
            path, headers = f"/sessions/{session}/events", {"Last-Event-ID": str(screen.seq)}
            with contextlib.suppress(aiohttp.ClientError):
                async with v1.events(path, headers=headers if screen.seq else {}) as events:
                    async for event in events:
                        screen.take(event)
                        if kill_at is not None and screen.seq >= kill_at:
                            gateway.end(signal.SIGKILL)
                            kill_at = 10**9
                        if message in screen.ended or screen.session.get("suspended"):
                            break
            if kill_at is None:
                whole = (await v1.get(f"/sessions/{session}/transcript"))["records"]
    assert [record["seq"] for record in screen.records] == list(range(1, len(whole) + 1))
    assert screen.records == whole


@contextlib.asynccontextmanager
async def client_of(gateway: GatewayProcess) -> AsyncIterator[V1]:
    async with aiohttp.ClientSession(gateway.address, headers=gateway.auth) as http:
        yield V1(gateway, http)

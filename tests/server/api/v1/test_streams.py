"""Event streams: each record comes once and in order, also after a reconnect or a kill."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from tests.server.api.v1_helpers import v1_client_of
from tests.support.gateway_process import NewGateway
from tests.support.held_command import HELD_CALL, release
from tests.support.v1_client import V1, SentEvent

SHORT_TURN = (
    "[delay 0.05] [reasoning let me see now]"
    ' [tool terminal {"command": "for i in 1 2 3; do echo $i; sleep 0.2; done"}]'
    " [then] [text all is well here] [delay 0.05]"
)


# Words come slowly, and the command waits until its output was seen: a slow client would get
# several deltas in one event, and a step that has ended as a whole record.
PAUSED_TURN = (
    "[delay 0.1] [reasoning let me see now and think it over once more]"
    ' [tool terminal {"command": "echo 1; until test -e go; do sleep 0.05; done; echo 2;'
    ' until test -e on; do sleep 0.05; done; echo 3"}]'
    " [then] [text all is well here and everywhere else too] [delay 0.1]"
)
GATES = {"go": "1\n", "on": "1\n2\n"}  # files, each created once this output was seen


class StreamClient:
    """A client that follows `docs/http.md`: what it shows after each event."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.live: dict[str, Any] | None = None
        self.session: dict[str, Any] = {}
        self.ended: list[int] = []
        self.names: list[str] = []

    @property
    def seq(self) -> int:
        return int(self.records[-1]["seq"]) if self.records else 0

    def apply(self, event: SentEvent) -> None:
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
                self.live["retry"] = None
            case "retry":
                assert self.live is not None
                self.live["retry"] = event.data
            case "tool":
                assert self.live is not None
                calls = {call["call_id"]: call for call in self.live["calls"]}
                calls[event.data["call_id"]]["output"] += event.data["text"]
            case "session":
                self.session = event.data
            case "ended":
                self.ended.append(event.data["id"])
        self.check_nothing_shown_twice()

    def check_nothing_shown_twice(self) -> None:
        last = self.records[-1]["message"] if self.records else {}
        if self.live and self.live["text"] and last.get("type") == "assistant":
            assert self.live["text"] not in last["text"]

    async def follow(self, events: AsyncIterator[SentEvent], *, until_ended: int) -> None:
        async for event in events:
            self.apply(event)
            if until_ended in self.ended:
                return


async def test_a_turn_is_streamed_from_its_first_delta_to_its_end(v1: V1) -> None:
    session, client, seen = await v1.open(), StreamClient(), []
    async with v1.events(f"/sessions/{session}/events") as events:
        message = await v1.say(session, PAUSED_TURN)
        async for event in events:
            client.apply(event)
            if event.name in ("text", "tool", "live") and client.live:
                outputs = [c["output"] for c in client.live["calls"]]
                seen.append((client.live["text"], outputs))
                for gate in [gate for gate in GATES if outputs == [GATES[gate]]]:
                    (v1.gateway.paths.workspaces / session / gate).touch()
            if message in client.ended:
                break
    kinds = [record["message"]["type"] for record in client.records]
    assert kinds == ["user", "assistant", "tool", "assistant"]
    printed = [calls[0] for _, calls in seen if calls]
    assert "1\n" in printed and printed[-1].startswith("1\n2\n"), printed
    texts = [text for text, _ in seen]
    assert any(text and "all is well here and everywhere".startswith(text) for text in texts)
    assert {"reasoning", "text", "tool"} <= set(client.names)
    assert client.live is None
    assert client.records == (await v1.get(f"/sessions/{session}/transcript"))["records"]


async def test_a_late_client_sees_what_the_others_see(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, f"[delay 0.25] [text one two three four {'and on ' * 99}]")
    early, late = StreamClient(), StreamClient()
    async with v1.events(f"/sessions/{session}/events") as events:
        async for event in events:
            early.apply(event)
            if early.live and "four" in early.live["text"]:
                break
        async with v1.events(f"/sessions/{session}/events") as more:
            async for event in more:
                late.apply(event)
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


async def test_a_retry_of_the_model_is_live_state(v1: V1) -> None:
    session, client = await v1.open(), StreamClient()
    async with v1.events(f"/sessions/{session}/events") as events:
        message = await v1.say(session, "[status 503 30] [times 1] [text never]")
        async for event in events:
            client.apply(event)
            if retry := (client.live or {}).get("retry"):
                break
        assert retry["text"].startswith("The model is overloaded; retrying in 3")
        assert retry["text"].endswith(" s (attempt 2 of 5)")
        assert (retry["attempt"], retry["attempts"]) == (2, 5) and retry["delay"] >= 30
        detail = await v1.get(f"/sessions/{session}")
        assert detail["live"]["retry"] == retry
        await v1.ask("POST", f"/sessions/{session}/stop")
        await v1.end(message)


async def test_a_retry_of_the_model_is_streamed_and_ends_with_its_answer(v1: V1) -> None:
    session, client = await v1.open(), StreamClient()
    async with v1.events(f"/sessions/{session}/events") as events:
        await v1.say(session, "[delay 0.2] [text one two three four] [fault cut] [times 1]")
        retries = []
        async for event in events:
            client.apply(event)
            if event.name == "retry":
                retries.append(event.data["text"])
            if retries and event.name == "text":
                break
    assert retries[0].startswith("The model sent an incomplete or invalid answer; retrying in")
    assert client.live is not None and client.live["retry"] is None


async def test_a_reconnect_gets_exactly_the_missed_records(v1: V1) -> None:
    session = await v1.open()
    for number in range(3):
        await v1.end(await v1.say(session, f"number {number}", f"m{number}"))
    path = f"/sessions/{session}/events"
    for options in ({"params": {"after": 4}}, {"headers": {"Last-Event-ID": "4"}}):
        client = StreamClient()
        client.records = [{"seq": 4, "message": {}}]
        async with v1.events(path, **options) as events:
            async for event in events:
                client.apply(event)
                if event.name == "session":
                    break
        assert [record["seq"] for record in client.records] == [4, 5, 6]
        assert client.names == ["record", "record", "live", "session"]
    for wrong in ("x", "-1", "1.5"):
        headers = {"Last-Event-ID": wrong}
        assert (await v1.refused("GET", path, headers=headers))[0] == 400


async def test_all_clients_of_a_session_see_the_same(v1: V1) -> None:
    session = await v1.open()
    clients = [StreamClient() for _ in range(8)]
    async with contextlib.AsyncExitStack() as stack:
        path = f"/sessions/{session}/events"
        streams = [await stack.enter_async_context(v1.events(path)) for _ in clients]
        message = await v1.say(session, SHORT_TURN)
        pairs = zip(clients, streams, strict=True)
        await asyncio.gather(*(s.follow(stream, until_ended=message) for s, stream in pairs))
    assert all(client.records == clients[0].records for client in clients)
    assert len(clients[0].records) == 4


async def test_steers_and_waiting_messages_are_streamed(v1: V1) -> None:
    session, client = await v1.open(), StreamClient()
    queued: list[list[int]] = []
    async with v1.events(f"/sessions/{session}/events") as events:
        first = await v1.say(session, f"{HELD_CALL} [then] [text ok]")
        steer = 0
        async for event in events:
            client.apply(event)
            if not steer and client.live and client.live["calls"]:
                steer = await v1.say(session, "faster", "m2", mode="steer")
                release(v1.gateway.paths, session)
            if event.name == "live" and event.data:
                queued.append([message["id"] for message in event.data["queued"]])
                assert not set(queued[-1]) & set(client.ended), (
                    "a message that has ended is not queued"
                )
            if first in client.ended:
                break
    assert [steer] in queued
    assert client.ended == [steer, first]


async def test_the_stream_of_all_sessions_has_every_change(v1: V1) -> None:
    async with v1.events("/events") as events:
        session = await v1.open()
        message = await v1.say(session, f"hello all {HELD_CALL} [then] [text done]")
        titles = set()
        async for event in events:
            if event.name == "session" and event.data["id"] == session:
                titles.add(event.data["title"][:9])
                if event.data["state"] == "running":  # held until this was seen
                    release(v1.gateway.paths, session)
                elif event.data["state"] == "idle" and event.data["messages"] == 4:
                    break
        assert "hello all" in titles
        await v1.end(message)
        await v1.ask("PATCH", f"/sessions/{session}", json={"title": "renamed"})
        async for event in events:
            if event.name == "session" and event.data["title"] == "renamed":
                break


async def test_a_slow_reader_gets_whole_records_instead_of_deltas(v1: V1) -> None:
    """The queue of a slow reader is bounded, and it still gets everything."""
    session, client = await v1.open(), StreamClient()
    async with v1.events(f"/sessions/{session}/events") as events:
        words = " ".join(f"word{number}" for number in range(20_000))
        message = await v1.say(session, f"[text {words}]")
        await v1.end(message)  # and not one event was read until now
        await client.follow(events, until_ended=message)
    assert client.records[-1]["message"]["text"] == words
    assert client.live is None


async def test_a_stop_of_the_gateway_ends_streams_cleanly(new_gateway: NewGateway) -> None:
    gateway = new_gateway().start()
    async with v1_client_of(gateway) as v1:
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
    gateway, client = new_gateway(), StreamClient()
    step = '[tool terminal {"command": "sleep 0.3; echo step"}] [then] '
    text = step * 4 + "[text finished at last] [delay 0.05]"
    session, message = "", 0
    for kill_at in (2, 5, 7, None):
        gateway.start()
        async with v1_client_of(gateway) as v1:
            session = session or await v1.open()
            message = message or await v1.say(session, text)
            path, headers = f"/sessions/{session}/events", {"Last-Event-ID": str(client.seq)}
            with contextlib.suppress(aiohttp.ClientError):
                async with v1.events(path, headers=headers if client.seq else {}) as events:
                    async for event in events:
                        client.apply(event)
                        if kill_at is not None and client.seq >= kill_at:
                            gateway.end(signal.SIGKILL)
                            kill_at = 10**9
                        if message in client.ended or client.session.get("suspended"):
                            break
            if kill_at is None:
                whole = (await v1.get(f"/sessions/{session}/transcript"))["records"]
    assert [record["seq"] for record in client.records] == list(range(1, len(whole) + 1))
    assert client.records == whole

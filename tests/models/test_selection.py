"""Without configuration, a local model server is selected if one answers, else the demo model."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from holdfast.core.config.settings import ModelSettings, Provider
from holdfast.core.text.translation import use_catalogue
from holdfast.models.selection import find_server, select_model
from holdfast.system.languages import PseudoCatalogue
from holdfast.testing.misbehaving_model.process import ModelProcess

Serve = Callable[[bytes | None], Awaitable[str]]
UNUSED_ADDRESS = "http://127.0.0.1:1/v1"


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server with a fixed response; None: it accepts connections and stays silent."""
    async with AsyncExitStack() as stack:

        async def start(answer: bytes | None) -> str:
            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                if answer is None:
                    await reader.read()
                else:
                    writer.write(answer)
                writer.close()

            server = await stack.enter_async_context(
                await asyncio.start_server(talk, "127.0.0.1", 0)
            )
            return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

        yield start


def listing(*ids: str) -> bytes:
    models = ",".join(f'{{"id":"{each}"}}' for each in ids)
    return b'HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n{"data":[' + models.encode() + b"]}"


async def test_the_first_address_in_order_that_has_a_model_is_taken(serve: Serve) -> None:
    first, second = await serve(listing("nomic-embed-text", "qwen3")), await serve(listing("b"))
    found = await find_server([UNUSED_ADDRESS, first, second], within=30)
    assert found is not None
    assert (found.base_url, found.models) == (first, ("qwen3",))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b'HTTP/1.1 200 OK\r\n\r\n{"data":[]}',
        b'HTTP/1.1 200 OK\r\n\r\n{"data":"\xff"}',
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
)
async def test_a_server_without_a_model_list_is_not_selected(serve: Serve, answer: bytes) -> None:
    assert await find_server([await serve(answer), UNUSED_ADDRESS, "http://[::1"], within=5) is None


async def test_a_silent_server_delays_the_start_only_up_to_its_limit(serve: Serve) -> None:
    silent = [await serve(None) for _ in range(4)]
    began = time.monotonic()
    assert await find_server(silent, within=0.2) is None
    assert time.monotonic() - began < 5
    assert len(asyncio.all_tasks()) <= 10


async def test_a_server_that_answers_is_selected_and_reported(model: ModelProcess) -> None:
    chosen = await select_model(ModelSettings(discover=(UNUSED_ADDRESS, model.base_url)), origin="")
    assert chosen.settings.provider is Provider.LOCAL
    assert chosen.settings.base_url == model.base_url
    assert (chosen.choice.provider, chosen.choice.name) == ("local", "scripted")
    assert model.base_url in str(chosen.choice.why)


async def test_a_configured_name_is_used(model: ModelProcess) -> None:
    chosen = await select_model(ModelSettings(name="mine", discover=(model.base_url,)), origin="")
    assert chosen.choice.name == "mine"


async def test_without_a_server_the_demo_model_is_selected_with_a_reason() -> None:
    chosen = await select_model(ModelSettings(discover=(UNUSED_ADDRESS,)), origin="")
    assert chosen.settings.provider is Provider.DEMO
    assert chosen.choice.name == "demo"
    assert "no API key is set" in str(chosen.choice.why)


async def test_a_configured_provider_is_not_searched_for(model: ModelProcess) -> None:
    settings = ModelSettings(provider=Provider.DEMO, discover=(model.base_url,))
    chosen = await select_model(settings, origin="holdfast.toml")
    assert chosen.settings == settings
    assert str(chosen.choice.why) == "set by holdfast.toml"
    with use_catalogue(PseudoCatalogue()):
        assert chosen.choice.why.for_person() == "⟦set by holdfast.toml⟧"
    assert model.requests()["count"] == 0

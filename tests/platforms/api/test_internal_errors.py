"""A fault of the gateway itself reaches API clients in OpenAI's form, with an id that its log line
has, too."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import pytest
from aiohttp import web

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import TextStreamed, TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import Attachment
from holdfast.core.secrets import Secret
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.intake import RecordingIntake

TOKEN = "a-token-of-the-tests"


class FaultyIntake(RecordingIntake):
    """An intake with a bug: before it accepts a message, or while its answer is streamed."""

    def __init__(self, *, accepts: bool) -> None:
        super().__init__()
        self._accepts = accepts

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        if not self._accepts:
            raise LookupError("a bug")
        return await super().accept(inbound, attachments)

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        async def events() -> AsyncIterator[TurnEvent]:
            yield TextStreamed("Half of")
            raise LookupError("a bug")

        yield events()


@asynccontextmanager
async def client_of(intake: FaultyIntake, path: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    async with SqliteStore(path / "state.db") as store:
        platform = ApiPlatform(Secret(TOKEN), reads=store, new_id=lambda prefix: f"{prefix}_77")
        application = web.Application()
        application.add_routes(platform.routes())
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        client = openai.AsyncOpenAI(base_url=address, api_key=TOKEN, max_retries=0)
        try:
            async with platform.connect(intake), client:
                yield client
        finally:
            await runner.cleanup()


def logged_cause(caplog: pytest.LogCaptureFixture) -> str:
    """The exception of the log line that has the id."""
    (line,) = [each for each in caplog.records if "err_77" in each.getMessage()]
    assert line.levelno == logging.ERROR and line.exc_info is not None
    return repr(line.exc_info[1])


async def test_an_unexpected_exception_is_a_500_with_the_id_of_its_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(FaultyIntake(accepts=False), tmp_path) as client:
        with pytest.raises(openai.InternalServerError) as failed:
            await client.chat.completions.create(
                model="holdfast", messages=[{"role": "user", "content": "hi"}]
            )
    error = failed.value
    assert (error.status_code, error.code, error.type) == (500, "internal_error", "server_error")
    assert (error.request_id, "err_77" in error.message) == ("err_77", True)
    assert "a bug" not in error.message, "the cause is for the log"
    assert error.response.headers["x-should-retry"] == "false"  # without an id of its own
    assert logged_cause(caplog) == "LookupError('a bug')"


async def test_a_chat_stream_that_has_begun_ends_with_the_error_and_its_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[str | None] = []
    async with client_of(FaultyIntake(accepts=True), tmp_path) as client:
        with pytest.raises(openai.APIError, match="err_77") as failed:
            async for chunk in await client.chat.completions.create(
                model="holdfast", messages=[{"role": "user", "content": "hi"}], stream=True
            ):
                got.append(chunk.choices[0].delta.content)
    assert (got, failed.value.code) == (["", "Half of"], "internal_error")
    assert logged_cause(caplog) == "LookupError('a bug')"


async def test_a_responses_stream_that_has_begun_ends_with_the_error_and_its_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(FaultyIntake(accepts=True), tmp_path) as client:
        kinds = []
        with pytest.raises(openai.APIError, match="err_77"):
            async for event in await client.responses.create(
                model="holdfast", input="hi", stream=True
            ):
                kinds.append(event.type)
    assert kinds[-2:] == ["response.output_text.delta", "response.failed"]
    assert logged_cause(caplog) == "LookupError('a bug')"

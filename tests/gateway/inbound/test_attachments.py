"""Attachments: they are stored in the workspace of the session that answers them, within limits."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import GatewayHarness

from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import Attachment, Source
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.store_queries import GetInboxRow
from holdfast.core.secrets import Secret
from holdfast.gateway.inbound.attachments import MAX_FILES, MAX_IMAGES
from holdfast.models.codecs.request import user_text
from holdfast.runner.workspace import Workspace
from holdfast.service.wiring import WorkspaceFiles

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.files = WorkspaceFiles(tmp_path)
    await harness.start()
    yield harness
    await harness.stop()


async def accept_files(harness: GatewayHarness, *files: Attachment) -> Accepted:
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    inbound = Inbound(source=source, event_id="files", message_id="files", text="here")
    return await harness.gateway.intake.accept(inbound, files)


def attachment(name: str, data: bytes) -> Attachment:
    async def fetch() -> bytes:
        return data

    return Attachment(name=name, fetch=fetch)


async def test_a_slow_file_is_stored_in_the_session_that_answers_it(
    harness: GatewayHarness, tmp_path: Path
) -> None:
    """G4: a file that is fetched during /new belongs to the new session."""
    fetching, done = asyncio.Event(), asyncio.Event()

    async def fetch() -> bytes:
        fetching.set()
        await done.wait()
        return b"the plan"

    harness.model.say("hello", "read")
    harness.say("hi")
    await harness.sent(1)
    async with asyncio.TaskGroup() as tasks:
        accepting = tasks.create_task(
            accept_files(harness, Attachment(name="plan.txt", fetch=fetch))
        )
        await fetching.wait()
        harness.say("/new")
        await harness.sent(2)
        done.set()
    await harness.sent(3)
    row = await harness.store.read(GetInboxRow(inbox_id=accepting.result().row.id))
    assert row is not None and row.session_id is not None
    found = Workspace(tmp_path, SessionId(row.session_id)).list_or_open("")
    assert isinstance(found, list)
    assert [each.path for each in found] == ["uploads/plan.txt"]


async def test_excess_files_are_dropped_and_counted_in_the_message(
    harness: GatewayHarness, tmp_path: Path
) -> None:
    harness.model.say("so many")
    accepted = await accept_files(
        harness, *(attachment(f"{n}.png", PNG) for n in range(MAX_FILES + 7))
    )
    await harness.sent(1)
    inbound = accepted.row.inbound
    assert "[Attached, and not here: 7 more; 100 are taken at a time]" in inbound.text
    assert len(inbound.images) == MAX_IMAGES
    assert len(list(tmp_path.glob("**/uploads/*"))) == MAX_FILES


async def test_document_text_reaches_the_model_after_the_message_text(
    tmp_path: Path,
) -> None:
    """Truncated, redacted, with the path of the whole file, and unchanged after a restart."""
    harness = GatewayHarness(tmp_path / "state.db")
    account = PlatformSettings(allow=("ann",), files=("text/*", ".log"), file_chars=40)
    harness.settings = Settings(platforms={"simulated": account})
    harness.secrets = [Secret("sesame-sesame")]
    harness.files = WorkspaceFiles(tmp_path)
    await harness.start()
    harness.model.say("read", "again")
    page = b"<html><p>open sesame-sesame, and then " + b"walk on. " * 50
    accepted = await accept_files(
        harness,
        attachment("way.html", page),
        attachment("tool.exe", b"no"),
        attachment("a.log", b"short"),
    )
    await harness.sent(1)
    shown = harness.model.requests[0].messages[0]
    assert isinstance(shown, UserMessage)
    assert shown.text.startswith("here\n\n[Attached, in the workspace: uploads/way.html")
    assert "tool.exe (this kind of file is not accepted here)" in shown.text
    assert "walk" not in shown.text
    assert shown.documents is not None
    assert '<external source="attached file uploads/way.html">\nopen ' in shown.documents
    assert "sesame-sesame" not in shown.documents and "walk on. walk" not in shown.documents
    assert "The whole file is uploads/way.html" in shown.documents
    assert '<external source="attached file uploads/a.log">\nshort' in shown.documents
    assert shown.documents in user_text(shown)
    assert accepted.row.inbound.documents == shown.documents
    await harness.stop()
    await harness.start()
    harness.say("go on")
    await harness.sent(2)
    assert harness.model.requests[1].messages[0] == shown
    await harness.stop()

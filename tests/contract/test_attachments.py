"""Attachments: what comes with a message is where its turn looks for it, however much it is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.conftest import World

from holdfast.core.attachment import Attachment
from holdfast.core.ids import SessionId
from holdfast.core.inbox import Accepted, Inbound
from holdfast.core.source import Source
from holdfast.gateway.receiving import MOST_FILES, MOST_PICTURES
from holdfast.process.workspace_files import WorkspaceFiles
from holdfast.runner.workspace import Workspace

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "state.db")
    world.put_file = WorkspaceFiles(tmp_path).put
    await world.start()
    yield world
    await world.stop()


async def hand_in(world: World, *files: Attachment) -> Accepted:
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    told = Inbound(source=source, event_id="files", message_id="files", text="here")
    return await world.gateway.intake.accept(told, files)


def at_once(name: str, data: bytes) -> Attachment:
    async def fetch() -> bytes:
        return data

    return Attachment(name=name, fetch=fetch)


async def test_a_file_that_takes_its_time_is_in_the_conversation_it_is_answered_in(
    desk: World, tmp_path: Path
) -> None:
    """G4: what is fetched while /new leaves a conversation belongs to the one after it."""
    fetching, done = asyncio.Event(), asyncio.Event()

    async def fetch() -> bytes:
        fetching.set()
        await done.wait()
        return b"the plan"

    desk.model.say("hello", "read")
    desk.say("hi")
    await desk.sent(1)
    async with asyncio.TaskGroup() as tasks:
        handing = tasks.create_task(hand_in(desk, Attachment(name="plan.txt", fetch=fetch)))
        await fetching.wait()
        desk.say("/new")
        await desk.sent(2)
        done.set()
    await desk.sent(3)
    row = await desk.store.inbox_row(handing.result().row.id)
    assert row is not None and row.session_id is not None
    found = Workspace(tmp_path, SessionId(row.session_id)).look("")
    assert isinstance(found, list)
    assert [each.path for each in found] == ["uploads/plan.txt"]


async def test_of_very_many_files_some_are_taken_and_the_rest_is_told(
    desk: World, tmp_path: Path
) -> None:
    desk.model.say("so many")
    accepted = await hand_in(desk, *(at_once(f"{n}.png", PNG) for n in range(MOST_FILES + 7)))
    await desk.sent(1)
    kept = accepted.row.inbound
    assert "[Attached, and not here: 7 more; 100 are taken at a time]" in kept.text
    assert len(kept.images) == MOST_PICTURES
    assert len(list(tmp_path.glob("**/uploads/*"))) == MOST_FILES

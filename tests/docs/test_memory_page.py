"""docs/memory.md: its provider works, its limits are the real ones, its commands are there."""

import re
from pathlib import Path
from typing import Any

import msgspec
from tests.support.doc_pages import Pages
from tests.support.gateway_harness import GatewayHarness, Until, until

from holdfast.agent.memory.provider_guard import ProviderLimits
from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.people.memory import MemoryHook, MemoryProviderContext

__all__ = ["until"]


async def test_the_provider_on_the_page_remembers(
    page: Pages, tmp_path: Path, until: Until
) -> None:
    (block,) = [b for b in page("docs/memory.md").blocks if b.language == "python"]
    space: dict[str, Any] = {}
    exec(block.text, space)
    harness = GatewayHarness(tmp_path / "state.db")
    harness.memory = [space["Diary"](MemoryProviderContext(directory=str(tmp_path / "diary")))]
    await harness.start()
    harness.model.say("fine", "they eat")
    await harness.end_of(await harness.accept("how are the bees", chat="one"))
    diary = tmp_path / "diary" / "questions.txt"
    await until(lambda: "how are the bees" in diary.read_text())
    await harness.end_of(await harness.accept("feed the bees", chat="two"))
    await harness.stop()
    assert len(harness.model.requests[0].messages) == 1
    note = harness.model.requests[1].messages[0]
    assert isinstance(note, NoteMessage) and "how are the bees" in note.text


def test_the_page_has_the_hooks_with_their_limits(page: Pages) -> None:
    rows, limits = page("docs/memory.md").named(), ProviderLimits()
    assert {*MemoryHook, "initialise", "shutdown"} <= set(rows)
    documented = {name: row[3] for name, row in rows.items() if re.fullmatch(r"[\d.]+ s", row[3])}
    assert documented == {
        name: f"{msgspec.structs.asdict(limits)[name]:g} s" for name in documented
    }
    assert len(documented) == 6


def test_the_page_shows_every_form_of_the_command(page: Pages) -> None:
    first = page("docs/memory.md").blocks[0].text
    verbs = re.findall(r"(?:\[|\| )(\w+)", COMMANDS_BY_NAME["memory"].arguments)
    assert verbs and all(f"/memory {verb}" in first for verb in verbs)

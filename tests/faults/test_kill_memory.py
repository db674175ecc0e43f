"""`kill -9` around a call of the memory tool: the note is stored once, and answered once."""

import json

from tests.support.process_harness import NewProcessHarness

from holdfast.core.crash_points import CrashPoint
from holdfast.core.secrets import Secret
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.memory import NotebookList

NOTE = json.dumps({"action": "add", "text": "keeps bees"})


async def test_a_note_is_stored_once_when_its_call_is_interrupted(
    new_process_harness: NewProcessHarness,
) -> None:
    """H2: it had been stored without a result; the call is repeated, and there is one note."""
    async with new_process_harness() as process_harness:
        await process_harness.start(CrashPoint.CALL_RETURNED)
        await process_harness.people.say(f"[tool memory {NOTE}] [then] [text noted]", chat="home")
        await process_harness.wait_for_crash()
        await process_harness.start()
        ledger = await process_harness.wait_until_settled()
        assert [sent.outgoing.text for sent in ledger.sent] == ["noted"]
        api = ApiClient(process_harness.paths, token=Secret(process_harness.token))
        (notebook,) = api.get("/memory", NotebookList).notebooks
        assert [note.text for note in notebook.notes] == ["keeps bees"]
        assert notebook.owner.startswith("person:simulated:default:")

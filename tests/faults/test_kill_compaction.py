"""`kill -9` during a compaction: the history is unchanged, and the turn is answered."""

from tests.faults.conservation import check_invariants
from tests.support.process_harness import ProcessHarness
from tests.support.stores import open_store

from holdfast.core.messages.transcript import CompactionMessage, Message
from holdfast.core.ports.store_queries import GetTranscript, ListSessions

LONG = "z" * 7_400  # nearly a quarter of a window of 8,000 tokens
SUMMARY = "Summarise the record now"


def long(name: str) -> str:
    return f"{name} {LONG} [text answer to {name}]"


async def transcript(process_harness: ProcessHarness) -> list[Message]:
    async with open_store(process_harness.paths.db) as store:
        (session,) = await store.read(ListSessions(limit=10))
        return [record.message for record in await store.read(GetTranscript(session_id=session.id))]


async def test_a_gateway_killed_while_it_summarises_keeps_the_history_and_summarises_anew(
    process_harness: ProcessHarness,
) -> None:
    """H1, H3, law 2: either the whole record is there or nothing of it."""
    config = process_harness.paths.config_file
    window = 'name = "scripted"\ncontext_window = 8000'
    config.write_text(config.read_text().replace('name = "scripted"', window))
    process_harness.model.script({"match": SUMMARY, "latency": 60, "times": 1})
    await process_harness.start()
    for name in ("a", "b"):
        await process_harness.people.say(long(name))
        await process_harness.wait_until_settled()
    await process_harness.people.say(long("c"))
    await process_harness.until(
        lambda: SUMMARY in str(process_harness.model.requests(last=1)["requests"])
    )
    await process_harness.kill()
    before = await transcript(process_harness)
    assert not any(isinstance(message, CompactionMessage) for message in before)
    # More than once: so long a record is read in pieces.
    process_harness.model.script({"match": SUMMARY, "text": "they said a and b", "times": 9})
    await process_harness.start()
    await process_harness.wait_until_settled()
    await process_harness.stop()
    after = await transcript(process_harness)
    assert after[: len(before)] == before
    (record,) = [message for message in after if isinstance(message, CompactionMessage)]
    assert record.text.startswith("they said a and b")
    await process_harness.start()
    contents = await check_invariants(process_harness)
    texts = [sent.outgoing.text for sent in contents.ledger.sent]
    assert texts == ["answer to a", "answer to b", "answer to c"]

"""`kill -9` in the middle of a summary: the history is what it was, and the turn is answered."""

from tests.faults.laws import check_laws
from tests.faults.world import World

from holdfast.core.messages.transcript import CompactionMessage, Message
from holdfast.store.sqlite.store import SqliteStore

LONG = "z" * 7_400  # nearly a quarter of a window of 8,000 tokens
SUMMARY = "Summarise the record now"


def long(name: str) -> str:
    return f"{name} {LONG} [text answer to {name}]"


async def transcript(world: World) -> list[Message]:
    async with SqliteStore(world.paths.db) as store:
        (session,) = await store.sessions(limit=10)
        return [record.message for record in await store.transcript(session.id)]


async def test_a_gateway_killed_while_it_summarises_keeps_the_history_and_summarises_anew(
    world: World,
) -> None:
    """H1, H3, law 2: either the whole record is there or nothing of it."""
    config = world.paths.config_file
    window = 'name = "scripted"\ncontext_window = 8000'
    config.write_text(config.read_text().replace('name = "scripted"', window))
    world.model.script({"match": SUMMARY, "latency": 60, "times": 1})
    await world.start()
    for name in ("a", "b"):
        await world.people.say(long(name))
        await world.settled()
    await world.people.say(long("c"))
    await world.until(lambda: SUMMARY in str(world.model.requests(last=1)["requests"]))
    await world.kill()
    before = await transcript(world)
    assert not any(isinstance(message, CompactionMessage) for message in before)
    # More than once: so long a record is read in pieces.
    world.model.script({"match": SUMMARY, "text": "they said a and b", "times": 9})
    await world.start()
    await world.settled()
    await world.stop()
    after = await transcript(world)
    assert after[: len(before)] == before
    (record,) = [message for message in after if isinstance(message, CompactionMessage)]
    assert record.text.startswith("they said a and b")
    await world.start()
    books = await check_laws(world)
    said = [sent.outgoing.text for sent in books.ledger.sent]
    assert said == ["answer to a", "answer to b", "answer to c"]

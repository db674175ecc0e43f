"""The laws of agents: how many are kept, whose they are, what they were built from.

Each law yields a sentence for every breach of it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import Books, Instant, Law
from tests.state_machine.model import VoiceClient

from holdfast.core.ids import SessionId


def the_cache_keeps_its_bounds(home: Home) -> Iterator[str]:
    """A6, A8: past the cap only those are kept, of the oldest, that are in the middle of a turn."""
    if not home.ready or home.life is None:
        return
    entries = home.gateway.services.cache._entries
    excess = len(entries) - home.life.config.max_agents
    for session_id in islice(entries, max(0, excess)):
        if not entries[session_id].busy:
            yield f"the agent of {session_id} is past the cap, and idle"


def who_works_is_not_evicted(home: Home) -> Iterator[str]:
    """A8: an agent that a turn has keeps its model to the end of that turn."""
    if not home.ready:
        return
    for lane in home.gateway.lanes:
        if lane.running_turn is not None and lane.running_turn.agent.client is None:
            yield f"the turn of {lane.session_id} runs, and its agent was released"


def who_was_helped_out_is_not_kept(home: Home) -> Iterator[str]:
    """A5: an agent for which a stand-in had to answer ends with that turn."""
    if not home.ready:
        return
    for session_id, entry in home.gateway.services.cache._entries.items():
        client = entry.agent.client
        if not entry.busy and isinstance(client, VoiceClient) and client.helped_out:
            yield f"the agent of {session_id} was kept, though a stand-in had helped it out"


def prompts_are_frozen(home: Home) -> Iterator[str]:
    """A4: a session's prompt is the same for ever, unless the configuration makes another of it."""
    if home.life is None or not home.life.store.reader.open:
        return
    for session_id, prompt, shape in home.life.store.look(_prompts):
        before = home.prompts.get(session_id, ("", ""))
        if before[1] == shape and before[0] != prompt:
            yield f"the prompt of {session_id} was {before[0]!r} and is {prompt!r}"
        home.prompts[session_id] = prompt, shape


def models_are_asked_with_the_frozen_prompt(home: Home) -> Iterator[str]:
    """A4: what stands in the file is what the provider gets, byte by byte. A turn need not wait
    for its beginning to be there, which may also be refused."""
    if (
        not home.ready
        or home.life is None
        or home.life.store.writer.requests
        or home.weather.refused
    ):
        return
    asked = {id(ask.client): ask.system for ask in home.life.voice.asks}
    for lane in home.gateway.lanes:
        agent = None if lane.current_turn is None else lane.current_turn.agent
        system = None if agent is None else asked.get(id(agent.client))
        prompt, _ = home.prompts.get(lane.session_id, ("", ""))
        if system is not None and system != prompt:
            yield f"{lane.session_id} was asked with {system!r}, not with its frozen prompt"


def _prompts(cursor: apsw.Cursor) -> list[tuple[SessionId, str, str]]:
    found = cursor.execute("SELECT session_id, text, shape FROM prompts")
    return [(SessionId(str(row[0])), str(row[1]), str(row[2])) for row in found]


ALWAYS: Sequence[Instant] = (
    the_cache_keeps_its_bounds,
    who_works_is_not_evicted,
    who_was_helped_out_is_not_kept,
    prompts_are_frozen,
    models_are_asked_with_the_frozen_prompt,
)


def agents_speak_with_the_chosen_model(books: Books) -> Iterator[str]:
    """A5: a cached agent is never one of before /model."""
    assert books.home.life is not None
    usual = books.home.life.config.model
    for session_id, entry in books.home.gateway.services.cache._entries.items():
        chosen = books.sessions[session_id].model_override or usual
        client = entry.agent.client
        if client is None or client.name != chosen:
            yield f"the agent of {session_id} speaks with {client and client.name}, not {chosen}"


def nothing_is_left_in_memory(books: Books) -> Iterator[str]:
    """DESIGN 10: memory is proportional to running turns."""
    gateway = books.home.gateway
    for name, left in (
        ("lanes", list(gateway.lanes)),
        ("routes", gateway.lanes._routes),
        ("watched messages", gateway.services.subscriptions._messages),
        ("chats", gateway.outbox._queues),
        ("streams", gateway.outbox._streams),
        ("runs", gateway.job_executor._running),
    ):
        if left:
            yield f"{name} are left: {left}"
    assert books.home.life is not None
    leased, cached = books.home.life.voice.leased, len(gateway.services.cache)
    if leased != cached:
        yield f"{leased} clients are leased for {cached} agents"


AT_PEACE: Sequence[Law] = (nothing_is_left_in_memory, agents_speak_with_the_chosen_model)

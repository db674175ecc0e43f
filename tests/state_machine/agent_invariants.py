"""Invariants of agents: how many are cached, which model they use, which prompt they have.

Each invariant yields a sentence for every violation.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import HomeContents, Invariant, StepInvariant
from tests.state_machine.model import SteppedModelClient

from holdfast.core.ids import SessionId


def agent_cache_respects_its_limit(home: Home) -> Iterator[str]:
    """A6, A8: past the limit, only agents with a running turn stay cached."""
    if not home.ready or home.current_run is None:
        return
    entries = home.gateway.cache._entries
    excess = len(entries) - home.current_run.config.max_agents
    for session_id in islice(entries, max(0, excess)):
        if not entries[session_id].busy:
            yield f"the agent of {session_id} is past the limit, and idle"


def busy_agents_are_not_evicted(home: Home) -> Iterator[str]:
    """A8: an agent keeps its model until its turn ends."""
    if not home.ready:
        return
    for lane in home.gateway.lanes:
        if lane.running_turn is not None and lane.running_turn.context.agent.client is None:
            yield f"the turn of {lane.session_id} runs, and its agent was released"


def agents_that_used_a_fallback_are_evicted(home: Home) -> Iterator[str]:
    """A5: an agent that used a fallback model is evicted with that turn."""
    if not home.ready:
        return
    for session_id, entry in home.gateway.cache._entries.items():
        client = entry.agent.client
        if not entry.busy and isinstance(client, SteppedModelClient) and client.used_fallback:
            yield f"the agent of {session_id} is cached, though it used a fallback model"


def prompts_are_frozen(home: Home) -> Iterator[str]:
    """A4: a session's prompt is the same for ever, unless the configuration makes another of it."""
    if home.current_run is None or not home.current_run.store.reader.open:
        return
    for session_id, prompt, shape in home.current_run.store.look(_prompts):
        before = home.prompts.get(session_id, ("", ""))
        if before[1] == shape and before[0] != prompt:
            yield f"the prompt of {session_id} was {before[0]!r} and is {prompt!r}"
        home.prompts[session_id] = prompt, shape


def model_requests_use_the_frozen_prompt(home: Home) -> Iterator[str]:
    """A4: the stored prompt is what the provider gets, byte by byte. A turn does not wait for
    the commit of its beginning, which may also be refused."""
    if (
        not home.ready
        or home.current_run is None
        or home.current_run.store.writer.requests
        or home.disk.refused
    ):
        return
    sent = {id(request.client): request.system for request in home.current_run.model.pending}
    for lane in home.gateway.lanes:
        turn = lane.turn
        agent = turn.context.agent if turn is not None and turn.has_agent else None
        system = None if agent is None else sent.get(id(agent.client))
        prompt, _ = home.prompts.get(lane.session_id, ("", ""))
        if system is not None and system != prompt:
            yield f"{lane.session_id} was asked with {system!r}, not with its frozen prompt"


def _prompts(cursor: apsw.Cursor) -> list[tuple[SessionId, str, str]]:
    found = cursor.execute("SELECT session_id, text, shape FROM prompts")
    return [(SessionId(str(row[0])), str(row[1]), str(row[2])) for row in found]


ALWAYS: Sequence[StepInvariant] = (
    agent_cache_respects_its_limit,
    busy_agents_are_not_evicted,
    agents_that_used_a_fallback_are_evicted,
    prompts_are_frozen,
    model_requests_use_the_frozen_prompt,
)


def agents_use_the_selected_model(contents: HomeContents) -> Iterator[str]:
    """A5: no cached agent has the model from before a /model command."""
    assert contents.home.current_run is not None
    usual = contents.home.current_run.config.model
    for session_id, entry in contents.home.gateway.cache._entries.items():
        chosen = contents.sessions[session_id].model_override or usual
        client = entry.agent.client
        if client is None or client.name != chosen:
            yield f"the agent of {session_id} uses {client and client.name}, not {chosen}"


def nothing_is_left_in_memory(contents: HomeContents) -> Iterator[str]:
    """Memory is proportional to running turns."""
    gateway = contents.home.gateway
    for name, left in (
        ("lanes", list(gateway.lanes)),
        ("routes", gateway.lanes._routes),
        ("watched messages", gateway.subscriptions._messages),
        ("chats", gateway.outbox._queues),
        ("streams", gateway.outbox._streams),
        ("runs", gateway.job_executor.running.ids),
    ):
        if left:
            yield f"{name} are left: {left}"
    assert contents.home.current_run is not None
    leased, cached = contents.home.current_run.model.leased, len(gateway.cache)
    if leased != cached:
        yield f"{leased} clients are leased for {cached} agents"


WHEN_IDLE: Sequence[Invariant] = (nothing_is_left_in_memory, agents_use_the_selected_model)

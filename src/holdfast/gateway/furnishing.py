"""Furnishing the house: what lanes, turns and commands work with, made of a gateway's parts."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.agent.auxiliary import Auxiliary
from holdfast.agent.memory.notes import Notes
from holdfast.core.ids import SessionId
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.agents.agents import Agents
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.memory import Memory
from holdfast.gateway.children import Children
from holdfast.gateway.jobs.jobs import Jobs
from holdfast.gateway.live.counters import Tally
from holdfast.gateway.live.feeds import Feeds
from holdfast.gateway.live.subscriptions import Watchers
from holdfast.gateway.live_settings import InForce
from holdfast.gateway.notify.chat_addresses import NamedChats
from holdfast.gateway.notify.proactive import Messenger
from holdfast.gateway.notify.send_policy import Outreach
from holdfast.gateway.outbound.delivery import Delivery
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.post_commit import Announcer
from holdfast.gateway.outbound.quiet_chats import Quiet
from holdfast.gateway.outbound.reactions import Signs
from holdfast.gateway.outbound.replies import Replies
from holdfast.gateway.outbound.stream_factory import Streaming
from holdfast.gateway.parts import Parts
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.services import House
from holdfast.gateway.sessions.titles import Titles
from holdfast.gateway.traces import Traces
from holdfast.gateway.turns.busy_notices import Notices


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway has made before the house is furnished, and keeps."""

    in_force: InForce
    doors: Doors
    redact: Redaction
    delivery: Delivery
    outgoing: OutgoingFiles
    children: Children
    auxiliary: Auxiliary
    tasks: asyncio.TaskGroup
    close: Callable[[SessionId], Awaitable[None]]  # the hard end of a session
    traces: Traces | None


def furnish(parts: Parts, built: Built) -> House:
    watchers, feeds = Watchers(), Feeds()
    replies = Replies(built.doors, new_id=parts.new_id)
    cache = _cache(parts)
    quiet = Quiet(parts.settings)
    signs = Signs(built.doors, built.delivery, quiet=quiet, clock=parts.clock)
    announcer = Announcer(watchers, built.delivery, feeds=feeds, signs=signs, redact=built.redact)
    return House(
        in_force=built.in_force,
        store=parts.store,
        clock=parts.clock,
        new_id=parts.new_id,
        crash=parts.crash,
        redact=built.redact,
        watchers=watchers,
        feeds=feeds,
        children=built.children,
        jobs=Jobs(built.in_force, store=parts.store, clock=parts.clock),
        doors=built.doors,
        replies=replies,
        streaming=Streaming(
            built.in_force,
            built.doors,
            built.delivery,
            journal=parts.store,
            clock=parts.clock,
            new_id=parts.new_id,
            crash=parts.crash,
            quiet=quiet,
        ),
        notices=Notices(
            built.doors,
            replies,
            journal=parts.store,
            announcer=announcer,
            clock=parts.clock,
            quiet=quiet,
        ),
        signs=signs,
        quiet=quiet,
        announcer=announcer,
        agents=_agents(parts, built),
        cache=cache,
        memory=_memory(parts, built.redact),
        auxiliary=built.auxiliary,
        titles=Titles(
            built.auxiliary,
            journal=parts.store,
            feeds=feeds,
            redact=built.redact,
            tasks=built.tasks,
        ),
        bench=parts.runners.bench,
        judge=parts.judge,
        tally=Tally(),
        messenger=Messenger(
            store=parts.store,
            clock=parts.clock,
            doors=built.doors,
            cache=cache,
            feeds=feeds,
            announcer=announcer,
            outgoing=built.outgoing,
            redact=built.redact,
        ),
        outreach=Outreach(NamedChats(built.doors)),
        traces=built.traces,
    )


def traces_of(parts: Parts, *, redact: Redaction) -> Traces | None:
    if parts.spans is None:
        return None
    return Traces(
        parts.spans,
        key=parts.trace_key,
        ratio=parts.settings.otel.sample,
        model=parts.model,
        clock=parts.clock,
        new_id=parts.new_id,
        redact=redact,
    )


def _agents(parts: Parts, built: Built) -> Agents:
    return Agents(
        parts.outfit,
        library=parts.store,
        clock=parts.clock,
        close=built.close,
    )


def _cache(parts: Parts) -> AgentCache:
    wanted = parts.settings.cache
    return AgentCache(
        max_agents=wanted.max_agents,
        max_bytes=wanted.max_mb * 1_000_000,
        idle_ttl=wanted.idle_ttl,
    )


def _memory(parts: Parts, redact: Redaction) -> Memory:
    room = parts.settings.memory.max_chars
    notes = parts.notes or Notes(parts.store, clock=parts.clock, redact=redact, room=room)
    return Memory(
        parts.memory_providers,
        notes=notes,
        store=parts.store,
        clock=parts.clock,
        redact=redact,
        limits=parts.memory_limits,
    )

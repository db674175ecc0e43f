"""Furnishing the house: what lanes, turns and commands work with, made of a gateway's parts."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.agent.auxiliary import Auxiliary
from holdfast.agent.memory.notes import Notes
from holdfast.core.ids import SessionId
from holdfast.gateway.agents import Agents
from holdfast.gateway.announcing import Announcer
from holdfast.gateway.cache import AgentCache
from holdfast.gateway.children import Children
from holdfast.gateway.delivery import Delivery
from holdfast.gateway.doors import Doors
from holdfast.gateway.feeds import Feeds
from holdfast.gateway.house import House
from holdfast.gateway.in_force import InForce
from holdfast.gateway.jobs import Jobs
from holdfast.gateway.memory import Memory
from holdfast.gateway.messenger import Messenger
from holdfast.gateway.named_chats import NamedChats
from holdfast.gateway.notices import Notices
from holdfast.gateway.outgoing import OutgoingFiles
from holdfast.gateway.outreach import Outreach
from holdfast.gateway.parts import Parts
from holdfast.gateway.quiet import Quiet
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.replies import Replies
from holdfast.gateway.signs import Signs
from holdfast.gateway.streaming import Streaming
from holdfast.gateway.tally import Tally
from holdfast.gateway.titles import Titles
from holdfast.gateway.traces import Traces
from holdfast.gateway.watchers import Watchers


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

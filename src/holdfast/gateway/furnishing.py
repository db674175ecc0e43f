"""Furnishing the house: what lanes, turns and commands work with, made of a gateway's parts."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.agent.memory.notes import Notes
from holdfast.core.ids import SessionId
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.agents.agents import AgentFactory
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.children import Subagents
from holdfast.gateway.jobs.jobs import JobService
from holdfast.gateway.live.counters import Counters
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.chat_addresses import ChatAddressBook
from holdfast.gateway.notify.proactive import ProactiveSender
from holdfast.gateway.notify.send_policy import SendPolicy
from holdfast.gateway.outbound.delivery import OutboxWorker
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.post_commit import PostCommitPublisher
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.outbound.reactions import WaitingReactions
from holdfast.gateway.outbound.replies import DeliveryFactory
from holdfast.gateway.outbound.stream_factory import StreamFactory
from holdfast.gateway.parts import GatewayDependencies
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.titles import SessionTitles
from holdfast.gateway.traces import MessageTracer
from holdfast.gateway.turns.busy_notices import BusyNotices


class BaseServices(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway has made before the house is furnished, and keeps."""

    live_settings: LiveSettings
    platforms: PlatformRegistry
    redact: Redaction
    outbox: OutboxWorker
    outgoing_files: OutgoingFiles
    subagents: Subagents
    auxiliary: AuxiliaryClient
    tasks: asyncio.TaskGroup
    close: Callable[[SessionId], Awaitable[None]]  # the hard end of a session
    tracer: MessageTracer | None


def build_services(dependencies: GatewayDependencies, base: BaseServices) -> Services:
    watchers, feeds = MessageSubscriptions(), SessionFeeds()
    replies = DeliveryFactory(base.platforms, new_id=dependencies.new_id)
    cache = _build_agent_cache(dependencies)
    quiet = QuietChats(dependencies.settings)
    signs = WaitingReactions(
        base.platforms, base.outbox, quiet_chats=quiet, clock=dependencies.clock
    )
    announcer = PostCommitPublisher(
        watchers, base.outbox, feeds=feeds, reactions=signs, redact=base.redact
    )
    return Services(
        live_settings=base.live_settings,
        store=dependencies.store,
        clock=dependencies.clock,
        new_id=dependencies.new_id,
        crash=dependencies.crash,
        redact=base.redact,
        subscriptions=watchers,
        feeds=feeds,
        subagents=base.subagents,
        jobs=JobService(base.live_settings, store=dependencies.store, clock=dependencies.clock),
        platforms=base.platforms,
        delivery_factory=replies,
        stream_factory=StreamFactory(
            base.live_settings,
            base.platforms,
            base.outbox,
            writes=dependencies.store,
            clock=dependencies.clock,
            new_id=dependencies.new_id,
            crash=dependencies.crash,
            quiet_chats=quiet,
        ),
        busy_notices=BusyNotices(
            base.platforms,
            replies,
            writes=dependencies.store,
            publisher=announcer,
            clock=dependencies.clock,
            quiet_chats=quiet,
        ),
        reactions=signs,
        quiet_chats=quiet,
        publisher=announcer,
        agent_factory=_build_agent_factory(dependencies, base),
        cache=cache,
        memory=_build_memory_hooks(dependencies, base.redact),
        auxiliary=base.auxiliary,
        titles=SessionTitles(
            base.auxiliary,
            writes=dependencies.store,
            feeds=feeds,
            redact=base.redact,
            tasks=base.tasks,
        ),
        sandbox=dependencies.runners.sandbox,
        judge=dependencies.judge,
        counters=Counters(),
        proactive_sender=ProactiveSender(
            store=dependencies.store,
            clock=dependencies.clock,
            platforms=base.platforms,
            cache=cache,
            feeds=feeds,
            publisher=announcer,
            outgoing_files=base.outgoing_files,
            redact=base.redact,
        ),
        send_policy=SendPolicy(ChatAddressBook(base.platforms)),
        tracer=base.tracer,
    )


def build_tracer(dependencies: GatewayDependencies, *, redact: Redaction) -> MessageTracer | None:
    if dependencies.spans is None:
        return None
    return MessageTracer(
        dependencies.spans,
        key=dependencies.trace_key,
        ratio=dependencies.settings.otel.sample,
        model=dependencies.model,
        clock=dependencies.clock,
        new_id=dependencies.new_id,
        redact=redact,
    )


def _build_agent_factory(dependencies: GatewayDependencies, base: BaseServices) -> AgentFactory:
    return AgentFactory(
        dependencies.agent_config,
        reads=dependencies.store,
        clock=dependencies.clock,
        close=base.close,
    )


def _build_agent_cache(dependencies: GatewayDependencies) -> AgentCache:
    wanted = dependencies.settings.cache
    return AgentCache(
        max_agents=wanted.max_agents,
        max_bytes=wanted.max_mb * 1_000_000,
        idle_ttl=wanted.idle_ttl,
    )


def _build_memory_hooks(dependencies: GatewayDependencies, redact: Redaction) -> MemoryManager:
    room = dependencies.settings.memory.max_chars
    notes = dependencies.notes or Notes(
        dependencies.store, clock=dependencies.clock, redact=redact, max_chars=room
    )
    return MemoryManager(
        dependencies.memory_providers,
        notes=notes,
        store=dependencies.store,
        clock=dependencies.clock,
        redact=redact,
        limits=dependencies.memory_limits,
    )

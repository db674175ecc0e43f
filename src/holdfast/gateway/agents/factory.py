"""Builds agents from the configuration, the session's row and its transcript."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from holdfast.agent.agent import Agent, CloseSession, ContextWindow
from holdfast.agent.prompt import (
    agent_signature,
    build_prompt,
    kept_fingerprint,
    prompt_fingerprint,
    request_fingerprint,
    signature_for_principal,
    signature_for_toolsets,
)
from holdfast.core.config.settings import Settings
from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import is_shared
from holdfast.core.people.memory import is_place
from holdfast.core.ports.runtime import Clock, ModelClient
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetContext, GetSession
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import ENGLISH, use_catalogue
from holdfast.core.turns.model import ModelChoice, accepts_images, context_window, model_profile
from holdfast.core.turns.subagent import Subagent
from holdfast.tools.registry import Toolbox

LeaseModel = Callable[[str | None], ModelClient]
"""Leases a model client: for the configured model, or for the one that a session chose instead."""

LoadMemory = Callable[[SessionKey | None], Awaitable[str]]
"""Loads the memory text for the prompt of a session; gets the route that opened a stored one."""


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What agents are built from: the settings and what was made of them."""

    settings: Settings
    lease: LeaseModel
    model: ModelChoice
    api_key: Secret | None
    fallback_keys: Sequence[Secret] = ()  # of the fallback models
    toolbox: Toolbox
    secrets: Sequence[Secret] = ()  # redacted everywhere


class AgentFactory:
    """Owns the current agent configuration and its signature; keeps nothing of any session."""

    def __init__(
        self,
        agent_config: AgentConfig,
        *,
        reads: StoreReader,
        clock: Clock,
        close: CloseSession,
    ) -> None:
        self._reads = reads
        self._clock = clock
        self._close = close
        self.apply_config(agent_config)

    def apply_config(self, agent_config: AgentConfig) -> None:
        """Build agents from this configuration from now on. An agent built from an earlier one is
        rebuilt for its next turn only if its signature differs."""
        self._agent_config = agent_config
        self._signature = _config_signature(agent_config)

    @property
    def model(self) -> ModelChoice:
        return self._agent_config.model

    @property
    def model_name(self) -> str:
        return self._agent_config.model.name

    def signature_for(self, row: InboxRow) -> str:
        """The signature that the agent answering this message must have.

        The person is part of it if one person owns the session; in a shared session, a change of
        speaker rebuilds nothing. The toolsets that the message is restricted to are part of it,
        too.
        """
        sessions = self._agent_config.settings.sessions
        shared = is_shared(
            row.inbound.source,
            sessions.group_sessions_per_user,
            sessions.thread_sessions_per_user,
        )
        signature = (
            self._signature if shared else signature_for_principal(self._signature, row.principal)
        )
        allowed = row.inbound.toolsets
        return signature if allowed is None else signature_for_toolsets(signature, allowed)

    async def build(
        self,
        session_id: SessionId,
        *,
        signature: str,
        fresh: bool,
        instructions: str = "",
        memory: LoadMemory | None = None,
        toolsets: Iterable[str] | None = None,
        subagent: Subagent | None = None,
    ) -> Agent:
        """Build the agent of a session. `fresh` means that the store has nothing of it yet.
        `memory` is loaded only if no prompt is stored, or if the stored prompt has another
        fingerprint: of the configuration, or of the instructions of the message."""
        config = self._agent_config  # the same one throughout, even if another is applied meanwhile
        row = None if fresh else await self._reads.read(GetSession(session_id=session_id))
        skipped, records = (
            (0, []) if row is None else await self._reads.read(GetContext(session_id=session_id))
        )
        allowed = toolsets if subagent is None else subagent.toolsets
        override = row.model_override if row else None
        model = override or config.model.name
        profile = model_profile(model)
        if not profile.uses_tools:
            allowed = ()
        toolbox = config.toolbox if allowed is None else config.toolbox.restricted_to(allowed)
        settings = config.settings.agent
        fingerprint = prompt_fingerprint(
            toolbox=toolbox, instructions=settings.instructions, identity=profile.identity
        )
        kept = None
        if row is not None and row.prompt:
            kept = kept_fingerprint(
                row.prompt_fingerprint, row.prompt, fingerprint=fingerprint, request=instructions
            )
            if kept is None and not is_place(row.route):
                earlier = prompt_fingerprint(
                    toolbox=toolbox,
                    instructions=settings.instructions,
                    identity=profile.identity,
                    version=1,
                )
                kept = kept_fingerprint(
                    row.prompt_fingerprint, row.prompt, fingerprint=earlier, request=instructions
                )
        if row is not None and kept is not None:
            prompt, fingerprint = row.prompt, kept
        else:
            fingerprint = request_fingerprint(fingerprint, instructions)
            with use_catalogue(ENGLISH):  # the prompt does not depend on who reads the replies
                prompt = build_prompt(
                    date=datetime.fromtimestamp(self._clock.now(), UTC).strftime("%A, %d %B %Y"),
                    toolbox=toolbox,
                    instructions=settings.instructions,
                    request=instructions,
                    memory=await memory(row.route if row else None) if memory else "",
                    identity=profile.identity,
                )
        return Agent(
            session_id,
            signature=signature,
            close=self._close,
            prompt=prompt,
            prompt_fingerprint=fingerprint,
            prompt_saved=row is not None and kept is not None and row.prompt_fingerprint == kept,
            toolbox=toolbox,
            client=config.lease(override),
            messages=(record.message for record in records),
            max_steps=subagent.max_steps if subagent else settings.max_steps,
            window=_build_window(config.settings, model, prompt, skipped=skipped),
            accepts_images=accepts_images(model, config.settings.model.vision),
            examples=profile.examples,
            taints=() if row is None else row.taints,
        )


def _build_window(settings: Settings, model: str, prompt: str, *, skipped: int) -> ContextWindow:
    limits, window = settings.compaction, settings.model.context_window
    return ContextWindow(
        size=window or context_window(model),
        compact_at=limits.at,
        keep=limits.keep,
        skipped=skipped,
        prompt=prompt,
    )


def _config_signature(agent_config: AgentConfig) -> str:
    model, agent = agent_config.settings.model, agent_config.settings.agent
    return agent_signature(
        provider=model.provider,
        model=model.name,
        api_mode=model.api_mode or "",
        base_url=model.base_url,
        api_key=agent_config.api_key,
        toolsets=agent.toolsets,
        instructions=agent.instructions,
        max_steps=agent.max_steps,
        extra=_signed_config(agent_config),
    )


def _signed_config(agent_config: AgentConfig) -> dict[str, object]:
    """Everything in the configuration that an agent is built from, except what each message may set
    anew (A3). API keys, and the names of keys, are hashed."""
    settings = agent_config.settings
    agent = msgspec.structs.asdict(settings.agent)
    model = msgspec.structs.asdict(settings.model)
    del agent["reasoning"], model["api_key"]
    del agent["toolsets"]  # `agent_signature` signs them, in any order
    return {
        "agent": agent,
        "model": model,
        "answers": agent_config.model.name,
        "spare_keys": [
            hashlib.sha256(key.reveal().encode()).hexdigest() for key in agent_config.fallback_keys
        ],
        "memory": settings.memory,
        "compaction": settings.compaction,
        "most_tasks": settings.delegate.max_tasks,
        "tools": sorted(agent_config.toolbox.schemas, key=lambda schema: schema.name),
    }

"""Builds agents from the configuration, the session's row and its transcript."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from holdfast.agent.agent import Agent, CloseSession, ContextWindow
from holdfast.agent.prompt import (
    agent_signature,
    build_prompt,
    prompt_fingerprint,
    signature_for_principal,
    signature_for_toolsets,
)
from holdfast.core.config.settings import Settings
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import is_shared
from holdfast.core.ports.runtime import Clock, ModelClient
from holdfast.core.ports.store import StoreReader
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import ModelChoice, accepts_images, context_window
from holdfast.core.turns.subagent import Subagent
from holdfast.tools.registry import Toolbox

# MERGED holdfast.gateway.agents.outfit: An outfit: what a configuration comes to for those who answer.
LeaseModel = Callable[[str | None], ModelClient]
"""Leases a model: the configured one, or the one a session was told to use instead."""


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    lease: LeaseModel
    model: ModelChoice
    api_key: Secret | None
    fallback_keys: Sequence[Secret] = ()  # of the models that stand in for it
    toolbox: Toolbox
    secrets: Sequence[Secret] = ()  # whatever must never be said


# MERGED holdfast.gateway.agents.agents: Building agents: from the config, the session's row and its transcript.
LoadMemory = Callable[[], Awaitable[str]]
"""What memory has for the prompt of a session."""


class AgentFactory:
    """Knows what an agent is made of; keeps nothing of any session."""

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
        """Agents are made of this from now on. One that was made of another outfit is made anew
        for its next turn, but only where what it was made of differs."""
        self._agent_config = agent_config
        self._signature = _config_signature(agent_config)

    @property
    def model(self) -> ModelChoice:
        return self._agent_config.model

    @property
    def model_name(self) -> str:
        return self._agent_config.model.name

    def signature_for(self, row: InboxRow) -> str:
        """What the agent that answers this message must have been built from.

        The person is part of it where one owns the session; in a session that several share a
        change of speaker rebuilds nothing. So are the toolsets that the message is confined to.
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
        confined = row.inbound.toolsets
        return signature if confined is None else signature_for_toolsets(signature, confined)

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
        """The agent of a session; `fresh` says that the store has nothing of it yet, and `memory`
        is asked for what it has to say only where no prompt is frozen, or where the frozen one
        was made by a configuration of another shape."""
        outfit = self._agent_config  # one from the first line to the last, whatever comes meanwhile
        row = None if fresh else await self._reads.session(session_id)
        skipped, records = (0, []) if row is None else await self._reads.context(session_id)
        confined = toolsets if subagent is None else subagent.toolsets
        toolbox = outfit.toolbox if confined is None else outfit.toolbox.restricted_to(confined)
        own = outfit.settings.agent
        shape = prompt_fingerprint(toolbox=toolbox, instructions=own.instructions)
        stands = row is not None and row.prompt and row.prompt_fingerprint in ("", shape)
        if row is not None and stands:
            prompt = row.prompt
        else:
            prompt = await self._build_prompt(toolbox, own.instructions, instructions, memory)
        override = row.model_override if row else None
        model = override or outfit.model.name
        return Agent(
            session_id,
            signature=signature,
            close=self._close,
            prompt=prompt,
            prompt_fingerprint=shape,
            prompt_saved=bool(stands) and row is not None and row.prompt_fingerprint == shape,
            toolbox=toolbox,
            client=outfit.lease(override),
            messages=(record.message for record in records),
            max_steps=subagent.max_steps if subagent else own.max_steps,
            window=_build_window(outfit.settings, model, prompt, skipped=skipped),
            accepts_images=accepts_images(model, outfit.settings.model.vision),
        )

    async def _build_prompt(
        self, toolbox: Toolbox, instructions: str, request: str, memory: LoadMemory | None
    ) -> str:
        """The one to freeze."""
        return build_prompt(
            date=datetime.fromtimestamp(self._clock.now(), UTC).strftime("%A, %d %B %Y"),
            toolbox=toolbox,
            instructions=instructions,
            request=request,
            memory=await memory() if memory else "",
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
    """Everything in the config that an agent is made by, but for what each message may set
    afresh (A3) and the keys, which are signed whole."""
    settings = agent_config.settings
    agent = msgspec.structs.asdict(settings.agent)
    model = msgspec.structs.asdict(settings.model)
    del agent["reasoning"], model["api_key"]
    # In any order, and they are signed as such.
    del agent["toolsets"]
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

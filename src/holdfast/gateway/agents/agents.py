"""Building agents: from the config, the session's row and its transcript."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

import msgspec

from holdfast.agent.agent import Agent, Close
from holdfast.agent.context import Context
from holdfast.agent.prompt import build_prompt, prompt_shape
from holdfast.agent.signature import sign, sign_confined, sign_for
from holdfast.core.config.settings import Settings
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import is_shared
from holdfast.core.ports.library import Library
from holdfast.core.ports.protocols import Clock
from holdfast.core.turns.known_models import context_window, sees_images
from holdfast.core.turns.model import ModelChoice
from holdfast.core.turns.subagent import Child
from holdfast.gateway.agents.outfit import Outfit
from holdfast.tools.registry import Toolbox

Remembered = Callable[[], Awaitable[str]]
"""What memory has for the prompt of a session."""


class Agents:
    """Knows what an agent is made of; keeps nothing of any session."""

    def __init__(
        self,
        outfit: Outfit,
        *,
        library: Library,
        clock: Clock,
        close: Close,
    ) -> None:
        self._library = library
        self._clock = clock
        self._close = close
        self.follow(outfit)

    def follow(self, outfit: Outfit) -> None:
        """Agents are made of this from now on. One that was made of another outfit is made anew
        for its next turn, but only where what it was made of differs."""
        self._outfit = outfit
        self._signature = _sign(outfit)

    @property
    def model(self) -> ModelChoice:
        return self._outfit.model

    @property
    def model_name(self) -> str:
        return self._outfit.model.name

    def signature_for(self, row: InboxRow) -> str:
        """What the agent that answers this message must have been built from.

        The person is part of it where one owns the session; in a session that several share a
        change of speaker rebuilds nothing. So are the toolsets that the message is confined to.
        """
        sessions = self._outfit.settings.sessions
        shared = is_shared(
            row.inbound.source,
            sessions.group_sessions_per_user,
            sessions.thread_sessions_per_user,
        )
        signature = self._signature if shared else sign_for(self._signature, row.principal)
        confined = row.inbound.toolsets
        return signature if confined is None else sign_confined(signature, confined)

    async def build(
        self,
        session_id: SessionId,
        *,
        signature: str,
        fresh: bool,
        instructions: str = "",
        memory: Remembered | None = None,
        toolsets: Iterable[str] | None = None,
        child: Child | None = None,
    ) -> Agent:
        """The agent of a session; `fresh` says that the store has nothing of it yet, and `memory`
        is asked for what it has to say only where no prompt is frozen, or where the frozen one
        was made by a configuration of another shape."""
        outfit = self._outfit  # one from the first line to the last, whatever comes meanwhile
        row = None if fresh else await self._library.session(session_id)
        skipped, records = (0, []) if row is None else await self._library.context(session_id)
        confined = toolsets if child is None else child.toolsets
        toolbox = outfit.toolbox if confined is None else outfit.toolbox.only(confined)
        own = outfit.settings.agent
        shape = prompt_shape(toolbox=toolbox, instructions=own.instructions)
        stands = row is not None and row.prompt and row.prompt_shape in ("", shape)
        if row is not None and stands:
            prompt = row.prompt
        else:
            prompt = await self._prompt(toolbox, own.instructions, instructions, memory)
        override = row.model_override if row else None
        model = override or outfit.model.name
        return Agent(
            session_id,
            signature=signature,
            close=self._close,
            prompt=prompt,
            prompt_shape=shape,
            prompt_kept=bool(stands) and row is not None and row.prompt_shape == shape,
            toolbox=toolbox,
            client=outfit.lease(override),
            messages=(record.message for record in records),
            max_steps=child.max_steps if child else own.max_steps,
            context=_context(outfit.settings, model, prompt, skipped=skipped),
            sees=sees_images(model, outfit.settings.model.sight),
        )

    async def _prompt(
        self, toolbox: Toolbox, instructions: str, request: str, memory: Remembered | None
    ) -> str:
        """The one to freeze."""
        return build_prompt(
            date=datetime.fromtimestamp(self._clock.now(), UTC).strftime("%A, %d %B %Y"),
            toolbox=toolbox,
            instructions=instructions,
            request=request,
            memory=await memory() if memory else "",
        )


def _context(settings: Settings, model: str, prompt: str, *, skipped: int) -> Context:
    limits, window = settings.compaction, settings.model.context_window
    return Context(
        window=window or context_window(model),
        at=limits.at,
        keep=limits.keep,
        skipped=skipped,
        prompt=prompt,
    )


def _sign(outfit: Outfit) -> str:
    model, agent = outfit.settings.model, outfit.settings.agent
    return sign(
        provider=model.provider,
        model=model.name,
        api_mode=model.api_mode or "",
        base_url=model.base_url,
        api_key=outfit.api_key,
        toolsets=agent.toolsets,
        instructions=agent.instructions,
        max_steps=agent.max_steps,
        shape=_shape(outfit),
    )


def _shape(outfit: Outfit) -> dict[str, object]:
    """Everything in the config that an agent is made by, but for what each message may set
    afresh (A3) and the keys, which are signed whole."""
    settings = outfit.settings
    agent = msgspec.structs.asdict(settings.agent)
    model = msgspec.structs.asdict(settings.model)
    del agent["reasoning"], model["api_key"]
    # In any order, and they are signed as such.
    del agent["toolsets"]
    return {
        "agent": agent,
        "model": model,
        "answers": outfit.model.name,
        "spare_keys": [
            hashlib.sha256(key.reveal().encode()).hexdigest() for key in outfit.spare_keys
        ],
        "memory": settings.memory,
        "compaction": settings.compaction,
        "most_tasks": settings.delegate.max_tasks,
        "tools": sorted(outfit.toolbox.schemas, key=lambda schema: schema.name),
    }

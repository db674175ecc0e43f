"""Building agents: from the config, the session's row and its transcript."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

import msgspec

from holdfast.agent.agent import Agent, Close
from holdfast.agent.context import Context
from holdfast.agent.prompt import build_prompt, prompt_shape
from holdfast.agent.signature import sign, sign_confined, sign_for
from holdfast.core.child import Child
from holdfast.core.ids import SessionId
from holdfast.core.inbox import InboxRow
from holdfast.core.known_models import context_window, sees_images
from holdfast.core.library import Library
from holdfast.core.model import ModelChoice
from holdfast.core.ports import Clock, ModelClient
from holdfast.core.secret import Secret
from holdfast.core.settings import Settings
from holdfast.core.source import is_shared
from holdfast.tools.registry import Toolbox

Lease = Callable[[str | None], ModelClient]
"""Leases a model: the configured one, or the one a session was told to use instead."""

Remembered = Callable[[], Awaitable[str]]
"""What memory has for the prompt of a session."""


class Agents:
    """Knows what an agent is made of; keeps nothing of any session."""

    def __init__(
        self,
        settings: Settings,
        *,
        lease: Lease,
        model: ModelChoice,
        api_key: Secret | None,
        toolbox: Toolbox,
        library: Library,
        clock: Clock,
        close: Close,
    ) -> None:
        self._settings = settings
        self._lease = lease
        self._api_key = api_key
        self._toolbox = toolbox
        self._library = library
        self._clock = clock
        self._close = close
        self.model = model
        self._signature = self._sign()
        self.model_name = model.name

    def signature_for(self, row: InboxRow) -> str:
        """What the agent that answers this message must have been built from.

        The person is part of it where one owns the session; in a session that several share a
        change of speaker rebuilds nothing. So are the toolsets that the message is confined to.
        """
        sessions = self._settings.sessions
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
        row = None if fresh else await self._library.session(session_id)
        skipped, records = (0, []) if row is None else await self._library.context(session_id)
        confined = toolsets if child is None else child.toolsets
        toolbox = self._toolbox if confined is None else self._toolbox.only(confined)
        shape = prompt_shape(toolbox=toolbox, instructions=self._settings.agent.instructions)
        stands = row is not None and row.prompt and row.prompt_shape in ("", shape)
        if row is not None and stands:
            prompt = row.prompt
        else:
            prompt = await self._prompt(toolbox, instructions, memory)
        override = row.model_override if row else None
        model = override or self.model_name
        return Agent(
            session_id,
            signature=signature,
            close=self._close,
            prompt=prompt,
            prompt_shape=shape,
            prompt_kept=bool(stands),
            toolbox=toolbox,
            client=self._lease(override),
            messages=(record.message for record in records),
            max_steps=child.max_steps if child else self._settings.agent.max_steps,
            context=self._context(model, prompt, skipped=skipped),
            sees=sees_images(model, self._settings.model.sight),
        )

    def _context(self, model: str, prompt: str, *, skipped: int) -> Context:
        limits, window = self._settings.compaction, self._settings.model.context_window
        return Context(
            window=window or context_window(model),
            at=limits.at,
            keep=limits.keep,
            skipped=skipped,
            prompt=prompt,
        )

    async def _prompt(self, toolbox: Toolbox, instructions: str, memory: Remembered | None) -> str:
        """The one to freeze."""
        return build_prompt(
            date=datetime.fromtimestamp(self._clock.now(), UTC).strftime("%A, %d %B %Y"),
            toolbox=toolbox,
            instructions=self._settings.agent.instructions,
            request=instructions,
            memory=await memory() if memory else "",
        )

    def _sign(self) -> str:
        model, agent = self._settings.model, self._settings.agent
        return sign(
            provider=model.provider,
            model=model.name,
            api_mode=model.api_mode or "",
            base_url=model.base_url,
            api_key=self._api_key,
            toolsets=agent.toolsets,
            instructions=agent.instructions,
            max_steps=agent.max_steps,
            shape=self._shape(),
        )

    def _shape(self) -> dict[str, object]:
        """Everything in the config that an agent is made by, but for what each message may
        set afresh (A3) and the key, which is signed whole."""
        settings = self._settings
        agent = msgspec.structs.asdict(settings.agent)
        model = msgspec.structs.asdict(settings.model)
        del agent["reasoning"], model["api_key"]
        # In any order, and they are signed as such.
        del agent["toolsets"]
        return {
            "agent": agent,
            "model": model,
            "answers": self.model.name,
            "memory": settings.memory,
            "tools": sorted(self._toolbox.schemas, key=lambda schema: schema.name),
        }

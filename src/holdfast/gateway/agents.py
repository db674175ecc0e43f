"""Building agents: from the config, the session's row and its transcript."""

from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.agent.agent import Agent
from holdfast.agent.prompt import build_prompt
from holdfast.agent.signature import sign
from holdfast.core.ids import SessionId
from holdfast.core.model import ModelChoice
from holdfast.core.ports import Clock, Library, ModelClient
from holdfast.core.secret import Secret
from holdfast.core.session import SessionRow
from holdfast.core.settings import Settings
from holdfast.tools.registry import Toolbox

Lease = Callable[[str | None], ModelClient]
"""Leases a model: the configured one, or the one a session was told to use instead."""


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
    ) -> None:
        self._settings = settings
        self._lease = lease
        self._api_key = api_key
        self._toolbox = toolbox
        self._library = library
        self._clock = clock
        self.signature = self._sign()
        self.model = model
        self.model_name = model.name

    async def build(self, session_id: SessionId, *, fresh: bool, instructions: str = "") -> Agent:
        """The agent of a session; `fresh` says that the store has nothing of it yet."""
        row = None if fresh else await self._library.session(session_id)
        records = [] if row is None else await self._library.transcript(session_id)
        return Agent(
            session_id,
            signature=self.signature,
            prompt=self._prompt(row, instructions),
            toolbox=self._toolbox,
            client=self._lease(row.model_override if row else None),
            messages=(record.message for record in records),
            max_steps=self._settings.agent.max_steps,
        )

    def _prompt(self, row: SessionRow | None, instructions: str) -> str:
        """The session's frozen prompt, or, before its first turn, the one to freeze."""
        if row is not None and row.prompt:
            return row.prompt
        return build_prompt(
            date=datetime.fromtimestamp(self._clock.now(), UTC).strftime("%A, %d %B %Y"),
            toolbox=self._toolbox,
            instructions=self._settings.agent.instructions,
            request=instructions,
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
            principal=None,
        )

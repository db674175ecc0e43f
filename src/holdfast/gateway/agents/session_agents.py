"""The agents of sessions: leased for a turn, with their memory, and released."""

from holdfast.agent.agent import Agent
from holdfast.core.config.settings import Settings
from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import SavePrompt
from holdfast.core.turns.model import ModelChoice
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.factory import AgentFactory
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.live_settings import LiveSettings


class AgentLease:
    """An agent while a turn uses it, and the settings of that turn. Leaving the context releases
    the agent."""

    def __init__(
        self, agents: "SessionAgents", agent: Agent, settings: Settings, *, keep: bool
    ) -> None:
        self.agent = agent
        self.settings = settings
        self._agents = agents
        self._keep = keep  # the session may have another turn

    def __enter__(self) -> "AgentLease":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, StoreError):
            # The buffer may hold what the store does not: the next turn reads the transcript again.
            self._agents.drop(self.agent.session_id)
        self._agents.release(self.agent, keep=self._keep)


class SessionAgents:
    """Leases each turn its agent: the cached one, or one that the factory builds. Owns nothing: the
    cache owns the agents."""

    def __init__(
        self,
        cache: AgentCache,
        factory: AgentFactory,
        *,
        memory: MemoryManager,
        live_settings: LiveSettings,
        writes: StoreWriter,
    ) -> None:
        self.memory = memory
        self._cache = cache
        self._factory = factory
        self._live_settings = live_settings
        self._writes = writes

    @property
    def model(self) -> ModelChoice:
        """The model of the agents that are built now."""
        return self._factory.model

    @property
    def cached(self) -> int:
        """The number of agents in the cache."""
        return len(self._cache)

    async def lease(self, session_id: SessionId, first: InboxRow, *, fresh: bool) -> AgentLease:
        """Lease the agent for a turn that begins with this message, with the settings as of the
        request, or of the build. `fresh` means that the store has nothing of the session yet."""
        settings = self._live_settings.current

        async def build() -> Agent:
            # From the current configuration: the agent is built again if that has changed since the
            # request.
            nonlocal settings
            settings = self._live_settings.current
            return await self._build(session_id, first, fresh=fresh)

        if first.inbound.instructions:
            self._drop_if_changed(session_id, first.inbound.instructions)
        agent = await self._cache.lease(
            session_id, signature=self._factory.signature_for(first), build=build
        )
        return AgentLease(self, agent, settings, keep=first.inbound.lasting)

    def _drop_if_changed(self, session_id: SessionId, instructions: str) -> None:
        """A4: a message whose instructions are not those of the frozen prompt gets another."""
        agent = self._cache.find(session_id)
        if agent is not None and not agent.has_instructions(instructions):
            self._cache.drop(session_id)

    async def _build(self, session_id: SessionId, first: InboxRow, *, fresh: bool) -> Agent:
        subagent = first.inbound.subagent
        if subagent is None:  # a subagent's work is remembered by its parent
            self.memory.enable_session(session_id, first)
        return await self._factory.build(
            session_id,
            signature=self._factory.signature_for(first),
            fresh=fresh,
            instructions=first.inbound.instructions,
            memory=(
                None
                if subagent
                else lambda route: self.memory.prompt_block(session_id, first, opened_by=route)
            ),
            toolsets=first.inbound.toolsets,
            subagent=subagent,
        )

    async def build_beside(self, session_id: SessionId, row: InboxRow) -> Agent:
        """An agent of the session for work that is no turn: it is not cached, and its caller
        releases its clients."""
        return await self._factory.build(
            session_id, signature=self._factory.signature_for(row), fresh=False
        )

    def release(self, agent: Agent, *, keep: bool) -> None:
        """Release the agent after its turn. `keep` means that the session may have another turn."""
        if not keep:
            self._cache.drop(agent.session_id)
        self._cache.release(agent)

    def drop(self, session_id: SessionId) -> None:
        """The next turn of the session gets a new agent, which reads the transcript again."""
        self._cache.drop(session_id)

    async def recall(self, session_id: SessionId, row: InboxRow) -> NoteMessage | None:
        """What memory has about the next message."""
        if not self.memory.has_recall or row.inbound.subagent is not None:
            return None
        return await self.memory.recall(session_id, row)

    async def save_prompt(self, agent: Agent) -> None:
        """A4: store the prompt before a turn is resumed with this agent. No beginning of a turn
        freezes it in that case, and it must not be built a third time."""
        if agent.prompt_saved:
            return
        await self._writes.write(
            SavePrompt(
                session_id=agent.session_id,
                prompt=agent.prompt,
                fingerprint=agent.prompt_fingerprint,
            )
        )
        agent.mark_prompt_saved()

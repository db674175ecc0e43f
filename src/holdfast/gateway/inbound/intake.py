"""The only entry for messages: checks, stores and acknowledges them, then routes them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum, auto

from holdfast.core.config.settings import route_of
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import ConnectError, IntakeClosed, InvalidTransition
from holdfast.core.ids import InboxId, PrincipalId, SessionId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import Attachment, Source
from holdfast.core.ports.command import Committed
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AcceptMessage
from holdfast.core.ports.store_queries import GetCursor
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.committed import accepted_message
from holdfast.gateway.inbound.inbound_policy import InboundPolicy
from holdfast.gateway.live.subscriptions import MessageWatcher
from holdfast.gateway.live_settings import LiveSettings

Admit = Callable[[Accepted], None]
Attach = Callable[[Inbound, Sequence[Attachment]], Awaitable[Inbound]]
"""Returns the message with its files, which it has stored."""


class IntakeState(Enum):
    """Which messages are accepted."""

    STARTING = auto()  # only those of subagents, because their turns are resumed
    OPEN = auto()  # all
    DRAINING = auto()  # only those of subagents, because their turns may still finish
    CLOSED = auto()  # none


INTAKE_TRANSITIONS: Mapping[IntakeState, frozenset[IntakeState]] = {
    IntakeState.STARTING: frozenset({IntakeState.OPEN, IntakeState.DRAINING, IntakeState.CLOSED}),
    IntakeState.OPEN: frozenset({IntakeState.DRAINING, IntakeState.CLOSED}),
    IntakeState.DRAINING: frozenset({IntakeState.CLOSED}),
    IntakeState.CLOSED: frozenset(),
}


class GatewayIntake:
    """Accepts messages. Owns whether it is open; everything accepted is passed to `admit`.

    A message is routed by its commit, not by the request that brought it: a request that is
    cancelled while it waits has been accepted all the same, and is answered.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        live_settings: LiveSettings,
        *,
        policy: InboundPolicy,
        attach: Attach,
        platforms: PlatformRegistry,
        watcher: MessageWatcher,
        admit: Admit,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._live_settings = live_settings
        self._platforms = platforms
        self._watcher = watcher
        self._policy = policy
        self._attach = attach
        self._admit = admit
        self._state = IntakeState.STARTING

    def open(self) -> None:
        """Accept all messages. Raises `InvalidTransition` if the stop has begun."""
        self._move(IntakeState.OPEN)

    def close(self) -> None:
        """Accept no more messages: the platforms keep them. A message whose write has begun is
        acknowledged when it is stored, and the next start runs it. Only the subagents of turns that
        may still finish are accepted, until `close_to_subagents`."""
        if self._state in (IntakeState.STARTING, IntakeState.OPEN):
            self._move(IntakeState.DRAINING)

    def close_to_subagents(self) -> None:
        if self._state is not IntakeState.CLOSED:
            self._move(IntakeState.CLOSED)

    def _move(self, to: IntakeState) -> None:
        if to not in INTAKE_TRANSITIONS[self._state]:
            raise InvalidTransition(f"the intake cannot go from {self._state} to {to}")
        self._state = to

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        if self._state is not IntakeState.OPEN:
            raise IntakeClosed(
                "The gateway is not accepting messages at the moment. Try again soon."
            )
        principal = await self._policy.check(inbound)
        if attachments:
            inbound = await self._attach(inbound, attachments)
        accepted = await self.accept_authorised(inbound, principal)
        if not accepted.duplicate:
            self._policy.record_accepted(inbound.source)
        return accepted

    async def accept_from_operator(self, inbound: Inbound, *, into: SessionId) -> Accepted:
        """Accept a message of the operator to a session in a chat of other people. It goes to the
        current session of that chat, and the answer to the chat; it is audited in the session that
        was addressed."""
        if self._state is not IntakeState.OPEN:
            raise IntakeClosed(
                "The gateway is not accepting messages at the moment. Try again soon."
            )
        principal = self._policy.check_operator(inbound)
        return await self.accept_authorised(inbound, principal, spoken_into=into)

    def accept_authorised(
        self, inbound: Inbound, principal: PrincipalId, *, spoken_into: SessionId | None = None
    ) -> Awaitable[Accepted]:
        """Accept an authorised message. If the gateway is about to stop, the next start runs it.
        The commit, not the caller, routes it: `on_committed`."""
        self._runtime.crash(CrashPoint.ACCEPT_SUBMITTED)
        return self._store.write(
            AcceptMessage(
                inbound=inbound,
                route=route_of(inbound.source, self._live_settings.current.sessions),
                principal=principal,
                spoken_into=spoken_into,
                at=self._runtime.clock.now(),
            )
        )

    def on_committed(self, event: Committed) -> None:
        """Route a message that a commit has stored."""
        accepted = accepted_message(event)
        if accepted is None:
            return
        from_subagent = accepted.row.inbound.subagent is not None
        if self._state is IntakeState.OPEN or (
            from_subagent and self._state is not IntakeState.CLOSED
        ):
            self._admit(accepted)

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        return await self._store.read(GetCursor(platform=platform, account=account, name=name))

    def report_alive(self, platform: str, account: str) -> None:
        self._platforms.mark_alive(platform, account)

    def report_lost(self, platform: str, account: str, error: ConnectError) -> None:
        self._platforms.report_lost(platform, account, error)

    def may_talk(self, source: Source) -> bool:
        return self._policy.may_talk(source)

    def watch(self, inbox_id: InboxId) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        return self._watcher.watch(inbox_id)

    def wait_for_end(self, inbox_id: InboxId) -> Awaitable[MessageEnded | None]:
        return self._watcher.wait_for_end(inbox_id)

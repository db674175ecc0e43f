"""Parses, authorises and carries out commands, never behind a turn.

The commands themselves (`registry`) are imported when the first one is given.
"""

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from holdfast.core.commands import COMMANDS, CommandSpec, Permission, index_commands
from holdfast.core.errors import NotAllowed, StoreError
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Accepted, InboxEnd, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.sessions.session import CommandEffect
from holdfast.gateway.commands.command import Command, CommandRequest, parse_command
from holdfast.gateway.commands.reply import refuse, send_reply
from holdfast.gateway.inbound.access import AccessPolicy, Action, principal_of
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)

BuildCommands = Callable[[], Iterable[Command]]


class CommandDispatcher:
    """Owns the commands and the tasks that carry them out; `table` says what there may be.

    What carries them out is made when the first is given: no start waits for it.
    """

    def __init__(
        self,
        services: Services,
        lanes: Lanes,
        *,
        access: AccessPolicy,
        tasks: asyncio.TaskGroup,
        table: Sequence[CommandSpec] = COMMANDS,
    ) -> None:
        self._services = services
        self._lanes = lanes
        self._access = access
        self._tasks = tasks
        self._table = table
        self._specs = index_commands(table)
        self._build: BuildCommands = tuple
        self._built: Mapping[str, Command] | None = None
        self._running: set[InboxId] = set()

    def running(self) -> Collection[InboxId]:
        """The commands that are being carried out."""
        return self._running

    def set_factory(self, build: BuildCommands) -> None:
        """Who makes the commands, which know this dispatcher."""
        self._build = build

    @property
    def _commands(self) -> Mapping[str, Command]:
        if self._built is None:
            self._built = {command.name: command for command in self._build()}
        return self._built

    def available(self) -> list[CommandSpec]:
        """What can be asked here: the rows of the table that somebody carries out."""
        return [spec for spec in self._table if spec.name in self._commands]

    def available_for(self, source: Source) -> list[CommandSpec]:
        """What whoever asks from there may give."""
        principal = principal_of(source)
        return [s for s in self.available() if self._access.allows(principal, _action(s), source)]

    def dispatch(self, accepted: Accepted, *, late: bool = False) -> bool:
        """Carry the row out if it is a command; `late`: it was typed before this start."""
        row = accepted.row
        parsed = parse_command(row.inbound.text) if row.inbound.commands else None
        if parsed is None:
            return False
        self.run(accepted, *parsed, late=late)
        return True

    def session_of(self, accepted: Accepted) -> SessionId | None:
        """The session that a message is about, if its route has one."""
        return self._lanes.session_of(accepted.row.route) or accepted.route_session

    def run(self, accepted: Accepted, name: str, argument: str, *, late: bool = False) -> None:
        """Carry a row out as this command, whatever its own words are."""
        row, session_id = accepted.row, self.session_of(accepted)
        row = msgspec.structs.replace(row, session_id=session_id)
        asked = CommandRequest(
            row=row,
            argument=argument,
            session_id=session_id,
            late=late,
            route_target=accepted.route_target,
        )
        self._running.add(row.id)
        effect = self._begin(name, asked)
        self._tasks.create_task(self._finish(effect, asked), name=f"command {name}")

    def _begin(self, name: str, request: CommandRequest) -> Awaitable[None]:
        spec = self._specs.get(name)
        command = self._commands.get(spec.name) if spec else None
        if (why := self._refusal(spec, request)) is not None:
            return refuse(self._services, request.row, why)
        if spec is None or command is None:
            return send_reply(self._services, request.row, self._unknown(name))
        if request.late and not spec.outlives_restart:
            return self._drop_late(request)
        if (why := self._misuse(spec, request)) is not None:
            return send_reply(self._services, request.row, why)
        return command.begin(request)

    def _refusal(self, spec: CommandSpec | None, request: CommandRequest) -> str | None:
        source = request.row.inbound.source
        try:
            self._access.authorise(principal_of(source), _action(spec), source)
        except NotAllowed as error:
            return str(error)
        return None

    def _misuse(self, spec: CommandSpec, request: CommandRequest) -> str | None:
        lane = self._lanes.get(request.session_id) if request.session_id else None
        if lane is not None and lane.busy and not spec.allowed_mid_turn:
            return (
                f"/{spec.name} cannot be done while the agent works on something: wait for its "
                "answer, or /stop it first."
            )
        return spec.argument_problem(request.argument)

    async def _finish(self, effect: Awaitable[None], request: CommandRequest) -> None:
        try:
            await effect
        except StoreError as error:
            log.error(
                "A command waits for the store: %s",
                error,
                extra={"action": "command_waiting_for_store"},
            )
            # Its row is still queued, and the next start carries it out. Whoever waits is told.
            text = f"This is carried out when the gateway starts again: {error}"
            self._services.subscriptions.end(MessageEnded(request.row.id, InboxState.FAILED, text))
        finally:
            self._running.discard(request.row.id)

    async def _drop_late(self, request: CommandRequest) -> None:
        end = InboxEnd(
            inbox_id=request.row.id,
            state=InboxState.SUPERSEDED,
            reason="typed before the gateway was started again",
        )
        at, session_id = self._services.clock.now(), request.session_id
        effect = CommandEffect(inbox_ends=(end,), session_id=session_id, at=at)
        await self._services.store.write(effect)
        self._services.publisher.messages_ended(effect.inbox_ends, (), session_id=session_id)

    def _unknown(self, name: str) -> str:
        there = [each for each, spec in self._specs.items() if spec.name in self._commands]
        near = difflib.get_close_matches(name, there, n=1)
        hint = f" Did you mean /{near[0]}?" if near else ""
        return f"There is no command /{name}.{hint} /help lists them."


def _action(spec: CommandSpec | None) -> Action:
    operates = spec is not None and spec.permission is Permission.OPERATE
    return Action.OPERATE if operates else Action.COMMAND

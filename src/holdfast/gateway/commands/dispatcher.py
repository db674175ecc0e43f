"""The command desk: parses, checks and carries out commands, never behind a turn."""

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from holdfast.core.errors import NotAllowed, StoreError
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Accepted, InboxEnd, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.people.commands import COMMANDS, CommandSpec, Permission, by_name
from holdfast.core.sessions.session import CommandEffect
from holdfast.gateway.commands.command import Asked, Command, parse
from holdfast.gateway.commands.reply import answer, refuse
from holdfast.gateway.inbound.authorise import Action, Authority, principal_of
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)

Make = Callable[[], Iterable[Command]]


class CommandDesk:
    """Owns the commands and the tasks that carry them out; `table` says what there may be.

    What carries them out is made when the first is given: no start waits for it.
    """

    def __init__(
        self,
        house: House,
        lanes: Lanes,
        *,
        authority: Authority,
        tasks: asyncio.TaskGroup,
        table: Sequence[CommandSpec] = COMMANDS,
    ) -> None:
        self._house = house
        self._lanes = lanes
        self._authority = authority
        self._tasks = tasks
        self._table = table
        self._specs = by_name(table)
        self._make: Make = tuple
        self._made: Mapping[str, Command] | None = None
        self._under_way: set[InboxId] = set()

    def under_way(self) -> Collection[InboxId]:
        """The commands that are being carried out."""
        return self._under_way

    def made_by(self, make: Make) -> None:
        """Who makes the commands, which know this desk."""
        self._make = make

    @property
    def _commands(self) -> Mapping[str, Command]:
        if self._made is None:
            self._made = {command.name: command for command in self._make()}
        return self._made

    def listed(self) -> list[CommandSpec]:
        """What can be asked here: the rows of the table that somebody carries out."""
        return [spec for spec in self._table if spec.name in self._commands]

    def listed_for(self, source: Source) -> list[CommandSpec]:
        """What whoever asks from there may give."""
        principal = principal_of(source)
        return [s for s in self.listed() if self._authority.may(principal, _action(s), source)]

    def take(self, accepted: Accepted, *, late: bool = False) -> bool:
        """Carry the row out if it is a command; `late`: it was typed before this start."""
        row = accepted.row
        parsed = parse(row.inbound.text) if row.inbound.commands else None
        if parsed is None:
            return False
        self.carry_out(accepted, *parsed, late=late)
        return True

    def session_of(self, accepted: Accepted) -> SessionId | None:
        """The session that a message is about, if its route has one."""
        return self._lanes.session_of(accepted.row.route) or accepted.route_session

    def carry_out(
        self, accepted: Accepted, name: str, argument: str, *, late: bool = False
    ) -> None:
        """Carry a row out as this command, whatever its own words are."""
        row, session_id = accepted.row, self.session_of(accepted)
        row = msgspec.structs.replace(row, session_id=session_id)
        asked = Asked(
            row=row,
            argument=argument,
            session_id=session_id,
            late=late,
            pointed=accepted.pointed,
        )
        self._under_way.add(row.id)
        effect = self._begin(name, asked)
        self._tasks.create_task(self._finish(effect, asked), name=f"command {name}")

    def _begin(self, name: str, asked: Asked) -> Awaitable[None]:
        spec = self._specs.get(name)
        command = self._commands.get(spec.name) if spec else None
        if (why := self._refusal(spec, asked)) is not None:
            return refuse(self._house, asked.row, why)
        if spec is None or command is None:
            return answer(self._house, asked.row, self._unknown(name))
        if asked.late and not spec.outlives_restart:
            return self._drop(asked)
        if (why := self._misuse(spec, asked)) is not None:
            return answer(self._house, asked.row, why)
        return command.begin(asked)

    def _refusal(self, spec: CommandSpec | None, asked: Asked) -> str | None:
        source = asked.row.inbound.source
        try:
            self._authority.authorise(principal_of(source), _action(spec), source)
        except NotAllowed as error:
            return str(error)
        return None

    def _misuse(self, spec: CommandSpec, asked: Asked) -> str | None:
        lane = self._lanes.get(asked.session_id) if asked.session_id else None
        if lane is not None and lane.busy and not spec.mid_turn:
            return (
                f"/{spec.name} cannot be done while the agent works on something: wait for its "
                "answer, or /stop it first."
            )
        return spec.misuse(asked.argument)

    async def _finish(self, effect: Awaitable[None], asked: Asked) -> None:
        try:
            await effect
        except StoreError as error:
            log.error("A command waits for the store: %s", error, extra={"action": "command"})
            # Its row is still queued, and the next start carries it out. Whoever waits is told.
            text = f"This is carried out when the gateway starts again: {error}"
            self._house.watchers.end(MessageEnded(asked.row.id, InboxState.FAILED, text))
        finally:
            self._under_way.discard(asked.row.id)

    async def _drop(self, asked: Asked) -> None:
        end = InboxEnd(
            inbox_id=asked.row.id,
            state=InboxState.SUPERSEDED,
            reason="typed before the gateway was started again",
        )
        at, session_id = self._house.clock.now(), asked.session_id
        effect = CommandEffect(inbox_ends=(end,), session_id=session_id, at=at)
        await self._house.store.settle_command(effect)
        self._house.announcer.messages(effect.inbox_ends, (), session_id=session_id)

    def _unknown(self, name: str) -> str:
        there = [each for each, spec in self._specs.items() if spec.name in self._commands]
        near = difflib.get_close_matches(name, there, n=1)
        hint = f" Did you mean /{near[0]}?" if near else ""
        return f"There is no command /{name}.{hint} /help lists them."


def _action(spec: CommandSpec | None) -> Action:
    operates = spec is not None and spec.permission is Permission.OPERATE
    return Action.OPERATE if operates else Action.COMMAND

"""Parses, authorises and runs commands, also while a turn runs.

The commands themselves (`table`) are imported at the first command.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from holdfast.core.commands import (
    COMMANDS,
    CommandRequest,
    CommandSpec,
    index_commands,
    parse_command,
)
from holdfast.core.errors import NotAllowed, StoreError
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Accepted, InboxEnd, InboxState
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.translation import _, use_catalogue
from holdfast.gateway.access import AccessPolicy, principal_of
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.commands.context import Command, CommandContexts, ReplyContext, command_action
from holdfast.gateway.commands.reply import refuse, send_reply
from holdfast.gateway.turns.lanes import Lanes
from holdfast.system.pacing import IterationPacer

log = logging.getLogger(__name__)


def load_commands(contexts: CommandContexts) -> Mapping[str, Command]:
    """Imports the commands. Called at the first command, so that no start waits for it."""
    from holdfast.gateway.commands.table import bind_commands  # noqa: PLC0415 - see above

    return bind_commands(contexts)


class CommandDispatcher:
    """Owns the tasks that run commands. `specs` describe them; `load` brings their functions by
    name, and is called at the first command."""

    def __init__(
        self,
        replies: ReplyContext,
        lanes: Lanes,
        *,
        access: AccessPolicy,
        tasks: asyncio.TaskGroup,
        turn_starts: IterationPacer,
        languages: ChatLanguages,
        load: Callable[[], Mapping[str, Command]],
        specs: Sequence[CommandSpec] = COMMANDS,
    ) -> None:
        self._replies = replies
        self._lanes = lanes
        self._access = access
        self._tasks = tasks
        self._turn_starts = turn_starts  # they make way for commands
        self._languages = languages
        self._load = load
        self._listed = specs
        self._specs = index_commands(specs)
        self._loaded: Mapping[str, Command] | None = None
        self._running: set[InboxId] = set()

    @property
    def _commands(self) -> Mapping[str, Command]:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def available(self) -> list[CommandSpec]:
        """The commands that have a function, in the order of their descriptions."""
        return [spec for spec in self._listed if spec.name in self._commands]

    def dispatch(self, accepted: Accepted, *, late: bool = False) -> bool:
        """Run the row if it is a command; `late`: it was sent before this start."""
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
        """Run a row as this command, whatever its text is."""
        row, session_id = accepted.row, self.session_of(accepted)
        self._running.add(row.id)
        request = CommandRequest(
            row=msgspec.structs.replace(row, session_id=session_id),
            argument=argument,
            session_id=session_id,
            late=late,
            route_target=accepted.route_target,
            running=tuple(self._running),
        )
        with use_catalogue(self._languages.of_message(row)):
            effect = self._begin(name, request)
            self._tasks.create_task(self._finish(effect, request), name=f"command {name}")

    def _begin(self, name: str, request: CommandRequest) -> Awaitable[None]:
        spec = self._specs.get(name)
        command = self._commands.get(spec.name) if spec else None
        if (refusal := self._refusal(spec, request)) is not None:
            return refuse(self._replies, request.row, refusal)
        if spec is None or command is None:
            return send_reply(self._replies, request.row, self._unknown(name))
        if request.late and not spec.outlives_restart:
            return self._drop_late(request)
        if (why := self._misuse(spec, request)) is not None:
            return send_reply(self._replies, request.row, why)
        return command(request)

    def _refusal(self, spec: CommandSpec | None, request: CommandRequest) -> NotAllowed | None:
        source = request.row.inbound.source
        try:
            self._access.authorise(principal_of(source), command_action(spec), source)
        except NotAllowed as error:
            return error
        return None

    def _misuse(self, spec: CommandSpec, request: CommandRequest) -> str | None:
        lane = self._lanes.get(request.session_id) if request.session_id else None
        if lane is not None and lane.busy and not spec.allowed_mid_turn:
            return _(
                "/{name} is not possible while the agent is working. Wait for its answer, or send "
                "/stop first."
            ).format(name=spec.name)
        return spec.argument_problem(request.argument)

    async def _finish(self, effect: Awaitable[None], request: CommandRequest) -> None:
        try:
            with self._turn_starts.urgent():
                await effect
        except StoreError as error:
            log.error(
                "Could not commit a command: %s; the next start runs it",
                error,
                extra={"action": "command_waiting_for_store"},
            )
            # Its row is still queued; only those who wait for its end are told.
            text = _("This command runs when the gateway starts again: {reason}").format(
                reason=error.for_person()
            )
            self._replies.subscriptions.end(MessageEnded(request.row.id, InboxState.FAILED, text))
        finally:
            self._running.discard(request.row.id)

    async def _drop_late(self, request: CommandRequest) -> None:
        end = InboxEnd(
            inbox_id=request.row.id,
            state=InboxState.SUPERSEDED,
            reason="sent before the gateway restarted",
        )
        effect = CommandEffect(
            inbox_ends=(end,),
            source=request.row.inbound.source,
            session_id=request.session_id,
            at=self._replies.clock.now(),
        )
        await self._replies.effects.commit(effect, retries=0)

    def _unknown(self, name: str) -> str:
        there = [each for each, spec in self._specs.items() if spec.name in self._commands]
        import difflib  # noqa: PLC0415 - for a mistyped command alone

        near = difflib.get_close_matches(name, there, n=1)
        unknown = _("There is no command /{name}.").format(name=name)
        hint = [_("Did you mean /{name}?").format(name=near[0])] if near else []
        return " ".join([unknown, *hint, _("/help lists the commands.")])

"""/undo: take back the last exchanges, as if they had not been said."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.core.messages.exchanges import Exchange, split_exchanges
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.core.sessions.session import UndoEffect as TakingBack
from holdfast.core.sessions.title import truncate_title
from holdfast.gateway.commands.alone import run_exclusively
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes


class UndoCommand:
    """What is taken back stays in the log, where people can read it, and no model does."""

    name = "undo"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        if _exchange_count(request.argument) is None:
            why = f"{request.argument!r} is no number of exchanges."
            return send_reply(
                self._services, request.row, COMMANDS_BY_NAME[self.name].usage_error(why)
            )
        return run_exclusively(self._services, self._lanes, request, self._take_back)

    async def _take_back(self, request: CommandRequest, session_id: SessionId) -> None:
        house, number = self._services, _exchange_count(request.argument) or 1
        taken = split_exchanges(await house.store.transcript(session_id))[-number:]
        if not taken:
            await send_reply(house, request.row, "There is nothing to take back.")
            return
        undo = TakingBack(session_id=session_id, from_seq=taken[0].from_seq)
        effect = prepare_effect(house, request.row, _undone_text(taken), undo=undo)
        await commit_effect(house, effect, on_committed=lambda _: house.cache.drop(session_id))


def _exchange_count(argument: str) -> int | None:
    """How many are meant; None: that is no number. No length of digits is too long to read."""
    if not argument:
        return 1
    number = int(argument[:9]) if argument.isdecimal() else 0
    return number or None


def _undone_text(undone: list[Exchange]) -> str:
    words = " ".join(message.text for message in undone[0].user_messages)
    since = (
        f"everything since “{truncate_title(words)}”"
        if len(undone) > 1
        else f"“{truncate_title(words)}”"
    )
    return (
        f"Taken back: {since}. The agent does not know of it any more; what its tools did "
        "meanwhile stays done."
    )

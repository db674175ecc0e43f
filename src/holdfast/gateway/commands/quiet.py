"""/quiet: say whether this chat gets answers and nothing else, or choose it."""

from collections.abc import Awaitable, Mapping

from holdfast.core.messages.quiet import QuietChat
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.services import Services

_QUIET_WORDS: Mapping[str, bool | None] = {"on": True, "off": False, "default": None}
_QUIET_TEXT = "This chat gets answers, and nothing else"
_LOUD_TEXT = "This chat also shows what is being done, and is told when something has to wait"
_QUIET_FETCHED = "There is nothing to be quiet about: what is said here is fetched, and never sent."


class QuietCommand:
    name = "quiet"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        source, word = request.row.inbound.source, request.argument.lower()
        if self._services.platforms.capabilities_of(source.platform, source.account).fetchable:
            return send_reply(self._services, request.row, _QUIET_FETCHED)
        if not word:
            return send_reply(self._services, request.row, self._text(request))
        if word in _QUIET_WORDS:
            return self._choose(request, _QUIET_WORDS[word])
        wrong = COMMANDS_BY_NAME[self.name].usage_error(f"/quiet knows no {request.argument!r}.")
        return send_reply(self._services, request.row, wrong)

    async def _choose(self, request: CommandRequest, quiet: bool | None) -> None:
        source = request.row.inbound.source
        chat = QuietChat(
            platform=source.platform,
            account=source.account,
            chat_id=source.chat_id,
            quiet=quiet,
            set_by=request.row.principal,
            at=self._services.clock.now(),
        )
        text = (
            "This chat is as it is configured." if quiet is None else f"{_quiet_state_text(quiet)}."
        )
        effect = prepare_effect(self._services, request.row, text, quiet=chat)
        await commit_effect(
            self._services,
            effect,
            on_committed=lambda _: self._services.quiet_chats.set_quiet(chat),
        )

    def _text(self, request: CommandRequest) -> str:
        source, quiet = request.row.inbound.source, self._services.quiet_chats
        whence = "chosen here" if quiet.is_set_by_command(source) else "as it is configured"
        return f"{_quiet_state_text(quiet.is_quiet(source))} ({whence})."


def _quiet_state_text(quiet: bool) -> str:
    return _QUIET_TEXT if quiet else _LOUD_TEXT

"""/quiet: say whether this chat gets answers and nothing else, or choose it."""

from collections.abc import Awaitable, Mapping

from holdfast.core.messages.quiet import QuietChat
from holdfast.core.people.commands import BY_NAME
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.services import House

_WORDS: Mapping[str, bool | None] = {"on": True, "off": False, "default": None}
_QUIET = "This chat gets answers, and nothing else"
_LOUD = "This chat also shows what is being done, and is told when something has to wait"
_FETCHED = "There is nothing to be quiet about: what is said here is fetched, and never sent."


class QuietCommand:
    name = "quiet"

    def __init__(self, house: House) -> None:
        self._house = house

    def begin(self, asked: Asked) -> Awaitable[None]:
        source, word = asked.row.inbound.source, asked.argument.lower()
        if self._house.doors.capabilities_of(source.platform, source.account).fetchable:
            return answer(self._house, asked.row, _FETCHED)
        if not word:
            return answer(self._house, asked.row, self._text(asked))
        if word in _WORDS:
            return self._choose(asked, _WORDS[word])
        wrong = BY_NAME[self.name].misused(f"/quiet knows no {asked.argument!r}.")
        return answer(self._house, asked.row, wrong)

    async def _choose(self, asked: Asked, quiet: bool | None) -> None:
        source = asked.row.inbound.source
        chat = QuietChat(
            platform=source.platform,
            account=source.account,
            chat_id=source.chat_id,
            quiet=quiet,
            set_by=asked.row.principal,
            at=self._house.clock.now(),
        )
        text = "This chat is as it is configured." if quiet is None else f"{_said(quiet)}."
        effect = prepare(self._house, asked.row, text, quiet=chat)
        await settle(self._house, effect, kept=lambda _: self._house.quiet.put(chat))

    def _text(self, asked: Asked) -> str:
        source, quiet = asked.row.inbound.source, self._house.quiet
        whence = "chosen here" if quiet.is_chosen(source) else "as it is configured"
        return f"{_said(quiet.at(source))} ({whence})."


def _said(quiet: bool) -> str:
    return _QUIET if quiet else _LOUD

"""History: what was said while we were away, where the server or a bouncer keeps it.

https://ircv3.net/specs/extensions/chathistory
"""

import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

from holdfast.core.errors import HoldfastError, NotConnected, OutcomeUnknown
from holdfast.platforms.irc.line import Line
from holdfast.platforms.irc.wire import Heard

log = logging.getLogger(__name__)

NEEDED = frozenset({"draft/chathistory", "batch", "server-time", "message-tags"})
PLAYBACK = frozenset({"chathistory", "znc.in/playback"})  # batches of what was said before
_TARGETS = "draft/chathistory-targets"
_PAGE = 100
_MOMENT = 0.001  # seconds: the finest that is told apart

Key = tuple[str | None, str | None, str, tuple[str, ...]]


class NoHistory(HoldfastError):
    """The server does not give what was asked for, for that reason."""


class Batch:
    """Owns the lines of one batch of a kind, from when it is opened to its end.
    https://ircv3.net/specs/extensions/batch"""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._name: str | None = None
        self._lines: list[Heard] = []

    def hear(self, heard: Heard) -> "list[Heard] | NoHistory | None":
        """All of them, once it is over."""
        if heard.verb == "FAIL" and heard.param(0) == "CHATHISTORY":
            return NoHistory(heard.last)
        if heard.verb == "BATCH":
            return self._bounds(heard)
        if self._name is not None and heard.tags.get("batch") == self._name:
            self._lines.append(heard)
        return None

    def _bounds(self, heard: Heard) -> list[Heard] | None:
        sign, name = heard.param(0)[:1], heard.param(0)[1:]
        if sign == "+" and self._name is None and heard.param(1) == self._kind:
            self._name = name
        return self._lines if sign == "-" and name == self._name else None


class History:
    """Keeps nothing: what a server has is asked for when it is wanted."""

    def __init__(self, line: Line, *, now: Callable[[], float]) -> None:
        self._line = line
        self._now = now
        most = line.features.get("CHATHISTORY", "")
        self._page = min(_PAGE, int(most)) if most.isdecimal() and int(most) else _PAGE

    async def chats(self, since: str) -> list[str] | None:
        """The channels, and the nicks of people, where something was said since then; None: the
        server does not say. Raises `NotConnected`."""
        until = stamp(self._now() + 86400)  # the clock of the server may be ahead of ours
        found: dict[str, None] = {}
        while True:
            question = (f"timestamp={_before(since)}", f"timestamp={until}", str(self._page))
            try:
                page = await self._batch(_TARGETS, "TARGETS", *question)
            except NoHistory:
                return None
            known = len(found)
            found |= dict.fromkeys(heard.param(1) for heard in page)
            if len(found) == known or len(page) < self._page:
                return [each for each in found if each]
            since = page[-1].param(2) or since

    async def since(self, target: str, moment: str) -> AsyncIterator[Heard]:
        """Oldest first, that moment included: two things may have been said in it, of which one is
        known. Raises `NotConnected`."""
        last: set[Key] = set()
        after = _before(moment)
        while page := await self._page_of(target, after):
            for heard in page:
                if _key(heard) not in last:
                    yield heard
            # A server may give fewer than it was asked for and have more: it is asked until
            # nothing later comes.
            last, end = {_key(heard) for heard in page}, page[-1].tags.get("time", "")
            if end <= moment:
                return
            # All of one instant: what else was said in it is not to be had.
            after = end if page[0].tags.get("time") == end else _before(end)
            moment = end

    async def _page_of(self, target: str, after: str) -> list[Heard]:
        try:
            return await self._batch(
                "chathistory", "AFTER", target, f"timestamp={after}", str(self._page)
            )
        except NoHistory as error:
            log.info(
                "What was said in %s meanwhile is not to be had: %s",
                target,
                error,
                extra={"action": "history_refused"},
            )
            return []

    async def _batch(self, kind: str, *question: str) -> list[Heard]:
        try:
            told: list[Heard] | NoHistory = await self._line.asked(
                ("CHATHISTORY", *question), Batch(kind).hear
            )
        except OutcomeUnknown as error:  # asking again does no harm
            raise NotConnected(str(error)) from error
        if isinstance(told, NoHistory):
            raise told
        return told


def stamp(seconds: float) -> str:
    """https://ircv3.net/specs/extensions/server-time. Such stamps sort as the times they name."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def mark(moment: str, event_id: str) -> str:
    """How far something was looked at: to which moment, and what was the last thing of it."""
    return f"{moment} {event_id}"


def marked(until: str) -> tuple[str, str]:
    """The moment, and the event that is known already; "": none of it is."""
    moment, _, event_id = until.partition(" ")
    return moment, event_id


def earlier(moment: str, seconds: float) -> str:
    """A stamp that is none stays as it is."""
    try:
        return stamp(datetime.fromisoformat(moment).timestamp() - seconds)
    except ValueError:
        return moment


def _before(moment: str) -> str:
    return earlier(moment, _MOMENT)


def _key(heard: Heard) -> Key:
    return heard.tags.get("msgid"), heard.tags.get("time"), heard.source, heard.params

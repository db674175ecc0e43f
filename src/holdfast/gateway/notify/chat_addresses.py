"""Named chats: what people write for a place, found among the doors that send."""

import re
from collections.abc import Sequence

from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Platform
from holdfast.core.turns.subagent import HOUSE
from holdfast.gateway.accounts.registry import Doors, spelled

_LONGEST = 512  # characters of an id; no platform has longer ones


class NoSuchChat(HoldfastError):
    """Nothing can be sent to what was named; the text says what could be. `param`: which part of
    it is wrong."""

    def __init__(self, message: str, *, param: str = "to") -> None:
        super().__init__(message)
        self.param = param


class NamedChats:
    """Owns nothing: doors say what there is."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def find(self, to: str, *, account: str = "", thread: str = "") -> Address:
        """`to` is platform:chat, or platform:chat/thread where no thread is named beside it."""
        name, colon, place = to.partition(":")
        if not colon or not name or not place.strip():
            raise NoSuchChat(f"{to!r} names no chat: write PLATFORM:CHAT, as in telegram:12345.")
        door = self._door(name, account)
        chat, within = (place, thread) if thread else _parted(place)
        _check(chat, door)
        if within and not _plain(within):
            raise NoSuchChat(f"{within!r} is no thread.", param="thread")
        return Address(
            platform=door.name,
            account=door.account,
            chat_id=spelled(door, chat),
            thread_id=within or None,
        )

    def _door(self, name: str, account: str) -> Platform:
        sending = [d for d in self._doors if not d.capabilities.fetchable and d.name != HOUSE]
        accounts = {door.account: door for door in sending if door.name == name}
        if not accounts:
            raise NoSuchChat(f"Nothing can be sent to a platform {name!r}: {_known(sending)}.")
        found = accounts.get(account or DEFAULT_ACCOUNT)
        if found is None and not account and len(accounts) == 1:
            (found,) = accounts.values()
        if found is None:
            wanted = f"no account {account!r}" if account else "several accounts, and no default"
            raise NoSuchChat(
                f"{name} has {wanted}; name one of these: {', '.join(sorted(accounts))}.",
                param="account",
            )
        return found


def shown_chat(address: Address) -> str:
    """A chat as people write it."""
    thread = f"/{address.thread_id}" if address.thread_id else ""
    return f"{address.platform}:{address.chat_id}{thread}"


def _known(sending: Sequence[Platform]) -> str:
    names = ", ".join(sorted({door.name for door in sending}))
    if names:
        return f"to these it can: {names}"
    return "none is set up yet that sends; `holdfast setup --door telegram` is one way"


def _parted(place: str) -> tuple[str, str]:
    chat, _, thread = place.partition("/")
    return chat, thread


def _check(chat: str, door: Platform) -> None:
    form = door.capabilities.chat_form
    if _plain(chat) and (form is None or re.fullmatch(form.pattern, chat, re.ASCII)):
        return
    like = f": one is written as {form.example}" if form is not None else ""
    raise NoSuchChat(f"{chat!r} is no chat of {door.name}{like}.")


def _plain(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and len(name) <= _LONGEST

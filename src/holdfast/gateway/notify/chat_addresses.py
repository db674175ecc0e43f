"""Finds the chat that a written address (`platform:chat/thread`) means."""

import re
from collections.abc import Sequence

from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.platform import Platform
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, platform_label
from holdfast.gateway.accounts.registry import PlatformRegistry, normalise_chat_id

_MAX_ID = 512  # characters of an id; no platform has longer ones


class NoSuchChat(HoldfastError):
    """Nothing can be sent to what was named; the text says what could be. `param`: which part of
    it is wrong."""

    def __init__(self, message: str, *, param: str = "to", **values: object) -> None:
        super().__init__(message, **values)
        self.param = param


def find_chat(
    platforms: PlatformRegistry, to: str, *, account: str = "", thread: str = ""
) -> Address:
    """The address of a chat that a person or an agent names. `to` is platform:chat, or
    platform:chat/thread where no thread is named beside it. Raises `NoSuchChat`."""
    name, colon, chat_text = to.partition(":")
    if not colon or not name or not chat_text.strip():
        raise NoSuchChat(f"{to!r} names no chat: write PLATFORM:CHAT, as in telegram:12345.")
    platform = _find_platform(platforms, name, account)
    chat, within = (chat_text, thread) if thread else _split_thread(chat_text)
    _check_chat(chat, platform)
    if within and not _is_plain(within):
        raise NoSuchChat(f"{within!r} is no thread.", param="thread")
    return Address(
        platform=platform.name,
        account=platform.account,
        chat_id=normalise_chat_id(platform, chat),
        thread_id=within or None,
    )


def _find_platform(platforms: PlatformRegistry, name: str, account: str) -> Platform:
    sending = [
        each
        for each in platforms
        if not each.capabilities.fetchable and each.name != INTERNAL_PLATFORM
    ]
    accounts = {platform.account: platform for platform in sending if platform.name == name}
    if not accounts:
        raise NoSuchChat(
            f"Nothing can be sent to a platform {name!r}: {_known_platforms(sending)}."
        )
    found = accounts.get(account or DEFAULT_ACCOUNT)
    if found is None and not account and len(accounts) == 1:
        (found,) = accounts.values()
    if found is None:
        what = f"no account {account!r}" if account else "several accounts, and no default"
        raise NoSuchChat(
            f"{name} has {what}; name one of these: {', '.join(sorted(accounts))}.",
            param="account",
        )
    return found


def format_chat(address: Address) -> str:
    """A chat as people write it."""
    thread = f"/{address.thread_id}" if address.thread_id else ""
    return f"{platform_label(address.platform)}:{address.chat_id}{thread}"


def _known_platforms(platforms: Sequence[Platform]) -> str:
    names = ", ".join(sorted({platform.name for platform in platforms}))
    if names:
        return f"to these it can: {names}"
    return "none is set up yet that sends; `holdfast platforms add telegram` is one way"


def _split_thread(written: str) -> tuple[str, str]:
    chat, _, thread = written.partition("/")
    return chat, thread


def _check_chat(chat: str, platform: Platform) -> None:
    form = platform.capabilities.chat_id_format
    if _is_plain(chat) and (form is None or re.fullmatch(form.pattern, chat, re.ASCII)):
        return
    like = f": one is written as {form.example}" if form is not None else ""
    raise NoSuchChat(f"{chat!r} is no chat of {platform.name}{like}.")


def _is_plain(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and len(name) <= _MAX_ID

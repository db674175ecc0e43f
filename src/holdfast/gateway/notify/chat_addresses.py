"""Finds the chat that a written address (`platform:chat/thread`) means."""

import re

from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.platform import Platform
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, platform_label
from holdfast.gateway.accounts.registry import PlatformRegistry, normalise_chat_id

_MAX_ID = 512  # characters of an id; no platform has longer ones


class NoSuchChat(HoldfastError):
    """There is no such chat; the text says what is possible. `param`: the wrong parameter."""

    def __init__(self, message: str, *, param: str = "to", **values: object) -> None:
        super().__init__(message, **values)
        self.param = param


def find_chat(
    platforms: PlatformRegistry, to: str, *, account: str = "", thread: str = ""
) -> Address:
    """The address of a chat that a person or an agent names. `to` is platform:chat, or
    platform:chat/thread if `thread` is empty. Raises `NoSuchChat`."""
    name, colon, chat_text = to.partition(":")
    if not colon or not name or not chat_text.strip():
        raise NoSuchChat("{to!r} is not a chat. Write PLATFORM:CHAT, as in telegram:12345.", to=to)
    platform = _find_platform(platforms, name, account)
    chat, within = (chat_text, thread) if thread else _split_thread(chat_text)
    _check_chat(chat, platform)
    if within and not _is_plain(within):
        raise NoSuchChat("{thread!r} is not a thread.", thread=within, param="thread")
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
        names = ", ".join(sorted({each.name for each in sending}))
        if not names:
            raise NoSuchChat(
                "No configured platform can send messages. Add one, for example with `holdfast "
                "platforms add telegram`."
            )
        raise NoSuchChat(
            "Nothing can be sent to the platform {name!r}. Use one of these: {names}.",
            name=name,
            names=names,
        )
    found = accounts.get(account or DEFAULT_ACCOUNT)
    if found is None and not account and len(accounts) == 1:
        (found,) = accounts.values()
    if found is None:
        names = ", ".join(sorted(accounts))
        if account:
            raise NoSuchChat(
                "{name} has no account {account!r}. Use one of these: {names}.",
                name=name,
                account=account,
                names=names,
                param="account",
            )
        raise NoSuchChat(
            "{name} has several accounts and no default. Name one of these: {names}.",
            name=name,
            names=names,
            param="account",
        )
    return found


def format_chat(address: Address) -> str:
    """A chat in the form that people write."""
    thread = f"/{address.thread_id}" if address.thread_id else ""
    return f"{platform_label(address.platform)}:{address.chat_id}{thread}"


def _split_thread(written: str) -> tuple[str, str]:
    chat, _, thread = written.partition("/")
    return chat, thread


def _check_chat(chat: str, platform: Platform) -> None:
    form = platform.capabilities.chat_id_format
    if _is_plain(chat) and (form is None or re.fullmatch(form.pattern, chat, re.ASCII)):
        return
    if form is None:
        raise NoSuchChat("{chat!r} is not a chat of {name}.", chat=chat, name=platform.name)
    raise NoSuchChat(
        "{chat!r} is not a chat of {name}. Write it like {example}.",
        chat=chat,
        name=platform.name,
        example=form.example,
    )


def _is_plain(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and len(name) <= _MAX_ID

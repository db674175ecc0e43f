"""External content: text that the people of a conversation did not write, how the model is shown
it, and what a conversation that contains it may do without asking.

A conversation with external content is *tainted*: the content may contain instructions that its
author wants the agent to follow (prompt injection).
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.messages.source import without_attached
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Message,
    NoteMessage,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.text.translation import N_

_MAX_LABEL_LENGTH = 120
_LABEL_DELIMITERS = frozenset("<>\"'`[]{}")
# Characters that are not shown, and with which a tag could be written so that only a model sees it.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
_TAG_NAME = f"[{_HIDDEN}]*".join("external")
_TAG = re.compile(rf"[<\uff1c\ufe64](?=[^\w<>]*{_TAG_NAME})", re.IGNORECASE)
# ASCII that is not shown, and that some models read.
_TAG_CHARACTERS = re.compile("[\U000e0000-\U000e007f]+")


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """One source of external content in a conversation. `principal`: the person who wrote it, in a
    conversation of several people; for that person it is not external."""

    label: str
    principal: PrincipalId | None = None


class TaintPolicy(StrEnum):
    """What happens to a call of a tainted conversation that external content may have caused."""

    ASK = "ask"
    REFUSE = "refuse"  # without asking: for an unattended gateway
    OFF = "off"  # it runs


class EffectKind(StrEnum):
    """What a call does that external content must not cause unnoticed."""

    SCHEDULE = "schedule"
    MEMORY = "memory"
    SEND = "send"
    CONTACT = "contact"
    OUTSIDE = "use"  # of a tool that leaves the sandbox


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a call does, with the text that an approval request shows to people. `targets`: the
    hosts, the chat or the tool; `complete` is False if there may be further hosts."""

    kind: EffectKind
    text: str
    targets: tuple[str, ...] = ()
    complete: bool = True


class NetworkUse(msgspec.Struct, frozen=True, kw_only=True):
    """The network use of a command. `complete` is False if it may also contact other hosts."""

    hosts: tuple[str, ...]
    complete: bool


class CommandNetwork(Protocol):
    def analyse(self, command: str) -> NetworkUse | None:
        """The hosts that a command would contact; None: it uses no network."""
        ...


TAINT_RULE = "tainted:"  # rules of standing approvals begin with it: never changed
_REASONS: Mapping[EffectKind, str] = {
    EffectKind.SCHEDULE: N_(
        "It changes scheduled jobs. The conversation contains external content: {sources}."
    ),
    EffectKind.MEMORY: N_(
        "It changes the notes for later conversations. The conversation contains external content: "
        "{sources}."
    ),
    EffectKind.SEND: N_(
        "It sends a message to another chat: {targets}. The conversation contains external "
        "content: {sources}."
    ),
    EffectKind.CONTACT: N_(
        "It contacts {targets}. The conversation contains external content: {sources}."
    ),
    EffectKind.OUTSIDE: N_(
        "It uses {targets}, which leaves the sandbox. The conversation contains external content: "
        "{sources}."
    ),
}
_UNKNOWN_HOST = "an unknown host"
_MAX_SOURCES = 5  # that an approval request names


def taint_reason_templates() -> Iterable[str]:
    return _REASONS.values()


def taint_rule(effect: Effect) -> str:
    """The rule that a standing approval is stored under, together with the target."""
    return f"{TAINT_RULE}{effect.kind}"


def taint_target(effect: Effect) -> str | None:
    """The hosts, the chat or the tool; None: not all are known, so that only "once" is possible."""
    if effect.kind in (EffectKind.SCHEDULE, EffectKind.MEMORY):
        return ""
    return " ".join(effect.targets) if effect.complete else None


def taint_reason(effect: Effect, taints: Iterable[Taint]) -> str:
    """Why a person is asked, with the sources of the content; in English, as it is stored."""
    labels = list(dict.fromkeys(taint.label for taint in taints))
    more = len(labels) - _MAX_SOURCES
    sources = ", ".join([*labels[:_MAX_SOURCES], *([f"and {more} more"] if more > 0 else [])])
    targets = ", ".join([*effect.targets, *([] if effect.complete else [_UNKNOWN_HOST])])
    return _REASONS[effect.kind].format(targets=targets, sources=sources)


def source_label(kind: str, name: str = "") -> str:
    """A label on one line, which cannot close the fence or imitate another part of a question."""
    plain = "".join(
        c if c.isprintable() and c not in _LABEL_DELIMITERS else " " for c in f"{kind} {name}"
    )
    return " ".join(plain.split())[:_MAX_LABEL_LENGTH]


def web_label(host: str) -> str:
    return source_label("web page", host)


def command_labels(use: NetworkUse) -> tuple[str, ...]:
    """The labels of the output of a command that used the network."""
    return tuple(source_label("command output from", host) for host in use.hosts) or (
        source_label("command output from the network"),
    )


def fence_external(text: str, sources: Iterable[str]) -> str:
    """The text between tags that name its sources and that it cannot close itself."""
    inside = _TAG.sub("&lt;", _TAG_CHARACTERS.sub("", text))
    return f'<external source="{", ".join(sources)}">\n{inside}\n</external>'


def fenced_result(message: ToolMessage) -> str:
    """The text of a result as the model is shown it."""
    return fence_external(message.text, message.sources) if message.sources else message.text


def taints_of(message: Message) -> Iterator[Taint]:
    """The sources of external content in a message."""
    if isinstance(message, ToolMessage | UserMessage | NoteMessage):
        for label in message.sources:
            yield Taint(label=label)
        if isinstance(message, UserMessage) and message.author is not None:
            name = message.speaker or message.author
            yield Taint(
                label=source_label("message of", name), principal=PrincipalId(message.author)
            )


def foreign_taints(taints: Iterable[Taint], person: PrincipalId) -> tuple[Taint, ...]:
    """Those that are external for this person: all but what the person wrote."""
    return tuple(taint for taint in taints if taint.principal != person)


def taint_labels(taints: Iterable[Taint]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(taint.label for taint in taints))


# Hosts

_URL_HOST = re.compile(
    r"(?<![\w.@-])(?:[a-z][a-z0-9+.-]*://(?:[^\s/@]*@)?)([^\s/?#:\"'<>)\]]+)", re.I
)
_NAMED_HOST = re.compile(r"(?<![\w./@:-])((?:[\w-]+\.)+[^\W\d_]{2,})(?![\w-])")


# Domains of countries and others that are also endings of files.
_FILE_ENDINGS = (".md", ".py", ".sh", ".rs", ".pl", ".zip", ".mov", ".ps", ".so", ".cc", ".app")


def normalise_host(host: str) -> str:
    """One spelling of a host: without www, in lower case, international names encoded."""
    host = host.strip("[]").rstrip(".").lower()
    with contextlib.suppress(UnicodeError):
        host = host if host.isascii() else host.encode("idna").decode()
    return host.removeprefix("www.")


def host_of(url: str) -> str | None:
    """The host of a URL, or of an address without a scheme; None: it has none."""
    try:
        host = urlsplit(url if "://" in url else f"https://{url}").hostname
    except ValueError:
        return None
    return normalise_host(host) if host else None


def hosts_in(text: str) -> frozenset[str]:
    """The hosts that a person names in a message."""
    named = (name for name in _NAMED_HOST.findall(text) if not name.lower().endswith(_FILE_ENDINGS))
    return frozenset(normalise_host(host) for host in (*_URL_HOST.findall(text), *named))


_CONTACT_TOOLS = ("fetch", "browser")
_NOT_RUN = (ToolOutcome.REFUSED, ToolOutcome.NOT_STARTED)


def known_hosts(messages: Sequence[Message], person: PrincipalId) -> frozenset[str]:
    """The hosts that a tainted conversation may contact without asking: those that the person wrote
    in it, and those that were contacted. What others wrote for the person, as in a mail or the task
    of a subagent, does not count. A contact after the taint was one of these, or was
    approved."""
    ran = {
        message.call_id
        for message in messages
        if isinstance(message, ToolMessage) and message.outcome not in _NOT_RUN
    }
    found: set[str] = set()
    for message in messages:
        if isinstance(message, UserMessage):
            if message.external or message.author not in (None, person):
                continue
            found |= hosts_in(without_attached(message.text))
        elif isinstance(message, AssistantMessage):
            for call in message.calls:
                if call.name in _CONTACT_TOOLS and call.id in ran:
                    found |= _argument_hosts(call.arguments)
    return frozenset(found)


def _argument_hosts(arguments: str) -> frozenset[str]:
    try:
        url = msgspec.json.decode(arguments or "{}", type=dict[str, object]).get("url")
    except msgspec.DecodeError:
        return frozenset()
    host = host_of(url) if isinstance(url, str) and url else None
    return frozenset() if host is None else frozenset((host,))

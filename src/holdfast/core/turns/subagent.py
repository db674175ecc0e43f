"""A subagent: an agent that works for another one, in a session of its own."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.source import Source

# The platform of messages that the gateway sends to itself: the name in rows, and the one that
# people see and filter by.
INTERNAL_PLATFORM, INTERNAL_PLATFORM_LABEL = "house", "internal"
DELEGATE_TOOL = "delegate"  # the tool that starts subagents, and its toolset
_MAX_TITLE_LENGTH = 60


def platform_label(platform: str) -> str:
    """The name of a platform as people see it, from its stored name."""
    return INTERNAL_PLATFORM_LABEL if platform == INTERNAL_PLATFORM else platform


def platform_from_label(label: str) -> str:
    """The stored name of a platform that a person named."""
    return INTERNAL_PLATFORM if label == INTERNAL_PLATFORM_LABEL else label


class SubagentKind(StrEnum):
    """Also the account of the internal platform that carries a subagent's task and its reply."""

    FOREGROUND = "waited"  # a tool call waits for it and gets its reply as the result
    BACKGROUND = "background"  # no call waits; its reply arrives as a message


class Subagent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What defines a subagent; it is in the inbox row that carries its task."""

    session_id: SessionId
    parent: SessionId
    turn_id: TurnId | None = None  # the parent's turn that waits for it
    call_id: CallId  # what requested it: a tool call, or a command
    kind: SubagentKind
    principal: PrincipalId  # the person it works for
    title: str
    depth: int  # 1: works for a conversation, 2: for a subagent of it
    max_steps: int
    toolsets: tuple[str, ...]
    # The session whose sandbox it shares. Stored as `bench`.
    sandbox_session: SessionId = msgspec.field(name="bench")
    model: str | None = None  # the model that was chosen there
    chat: Source  # the chat of the people that it works for
    message_id: str  # their last message there
    memory_owner: str = ""  # of that conversation; "": stored by an earlier version


class SubagentTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a subagent; None: the default."""

    text: str
    toolsets: tuple[str, ...] | None = None
    max_steps: int | None = None

    @property
    def title(self) -> str:
        first = self.text.strip().partition("\n")[0]
        words = " ".join(first[:400].split())
        return words if len(words) <= _MAX_TITLE_LENGTH else f"{words[: _MAX_TITLE_LENGTH - 1]}…"


class SubagentState(StrEnum):
    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "late"  # stopped because its time limit was reached


class SubagentResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a subagent ended: its reply, or the reason why there is none and its text up to then."""

    title: str
    state: SubagentState
    text: str
    why: str = ""
    sources: tuple[str, ...] = ()  # of external content in its session


class Delegation(Protocol):
    """What a turn may request of subagents. Each call id starts them once: a call that is repeated,
    in any process, finds the subagents it already has."""

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that a subagent may get, which are never more than the turn has."""
        ...

    async def run_and_wait(
        self, call_id: CallId, tasks: Sequence[SubagentTask], *, progress: Callable[[str], None]
    ) -> list[SubagentResult]:
        """The results of all, in the order of their tasks. Cancelling it stops them, unless the
        gateway is stopping: then they continue in its successor."""
        ...

    async def run_in_background(self, call_id: CallId, tasks: Sequence[SubagentTask]) -> list[str]:
        """Start subagents in the background; returns their titles.

        Raises `ToolFailed` if no more of them are allowed.
        """
        ...

"""Ports of the runtime: clock, ids, models, tools and the process, as other packages see them."""

from collections.abc import AsyncGenerator, Callable
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.core.crash_points import CrashHook, no_crash
from holdfast.core.turns.external import Effect
from holdfast.core.turns.model import ModelEvent, ModelRequest, ToolSchema
from holdfast.core.turns.stop import StopOrder
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    FileAccess,
    ReplayClass,
    ToolContext,
    ToolOutput,
)

IdFactory = Callable[[str], str]
"""Makes a new, unique id with the given prefix."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...


class Runtime(msgspec.Struct, frozen=True):
    """The ambient facilities of a process: time, new ids, and the hook of the crash tests."""

    clock: Clock
    new_id: IdFactory
    crash: CrashHook = no_crash


class WallClockTimer(Protocol):
    async def wait_until(self, at: float) -> None:
        """Return when the wall clock has reached that time, or earlier if the wall clock is set
        meanwhile. May be cancelled."""
        ...


class ModelClient(Protocol):
    """A lease on the shared pool, held by one agent."""

    name: str  # the model, as it is shown

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One call: deltas, then exactly one `Completed`, or `ModelFailed` raised.

        Closing the iterator early ends the call and releases its connection.
        """
        ...

    def release(self) -> None: ...


class Tool(Protocol):
    """A tool of an agent. Stateless: what it must remember is behind the ports of its context."""

    schema: ToolSchema
    toolset: str
    replay: ReplayClass
    danger: Danger

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        """Run the call. Cancelling stops it. Raises `ToolFailed` with a text for the model."""
        ...

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        """The outcome of a call that an earlier process started (`ReplayClass.ATTACH` only).

        None if it never started, so that it may be run. A tool that cannot know returns an output
        with the outcome `unknown`.
        """
        ...


@runtime_checkable
class CommandTool(Protocol):
    """A tool whose calls run commands: their risk is assessed before the call starts."""

    def command(self, arguments: Arguments) -> str | None:
        """The text that the shell would get. None: no command, or invalid arguments."""
        ...


@runtime_checkable
class InputTool(Protocol):
    """A tool whose calls write to the input of a running process: a shell would run it."""

    def process_input(self, arguments: Arguments) -> tuple[str, str] | None:
        """The id of the process, and the text. None: another call, or invalid arguments."""
        ...


@runtime_checkable
class FileTool(Protocol):
    """A tool whose calls read or change a file: the rules about paths apply."""

    def file_access(self, arguments: Arguments) -> FileAccess | None:
        """None: invalid arguments."""
        ...


@runtime_checkable
class MessageTool(Protocol):
    """A tool whose calls write to chats: permission is checked before the call starts."""

    def chat(self, arguments: Arguments) -> str | None:
        """The chat to write to. None: invalid arguments."""
        ...

    def message_text(self, arguments: Arguments) -> str | None:
        """The text that an approval request shows to people. None: invalid arguments."""
        ...


@runtime_checkable
class GuardedTool(Protocol):
    """A tool that knows what its calls do beyond the conversation. Another tool whose `danger` is
    `OUTSIDE` counts as one whose calls all leave the sandbox and return external content."""

    def effect(self, arguments: Arguments) -> Effect | None:
        """What external content must not cause unnoticed. None: the call does nothing of this
        kind, or its arguments are invalid."""
        ...


class Lifecycle(Protocol):
    """The parts of its process that the gateway may use."""

    @property
    def stop_order(self) -> StopOrder | None:
        """The stop or restart that has begun."""
        ...

    @property
    def pending_restart(self) -> StopOrder | None:
        """A restart that will begin as soon as no turn runs."""
        ...

    async def restart(self, order: StopOrder, *, when_idle: bool = False) -> None:
        """Restart the gateway. Returns once a successor has passed its start check and the stop has
        begun, or, with `when_idle`, will begin as soon as no turn runs. Raises `RestartRefused`
        with the reason; then nothing has changed, and the gateway keeps running."""
        ...

    def stop(self, order: StopOrder) -> None:
        """Begin the stop now; if one has begun, shorten it."""
        ...

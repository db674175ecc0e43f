"""An agent: what is kept of a session between its turns so that the next one starts at once."""

from collections.abc import Awaitable, Callable, Iterable

from holdfast.agent.context import Context
from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.message import (
    AssistantMessage,
    CompactionMessage,
    Image,
    Message,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.protocols import ModelClient
from holdfast.core.turns.compaction import last_compaction
from holdfast.core.turns.model import ToolSchema
from holdfast.tools.registry import Toolbox

Interrupt = Callable[[str], None]
"""Stops the turn that an agent is leased to, for that reason."""

Close = Callable[[SessionId], Awaitable[None]]
"""Ends all that a session holds."""

_OVERHEAD = 400  # bytes of one message besides its text, measured on CPython 3.11


class Agent:
    """Owns one session's frozen prompt, its lease on a model, and the buffer of its messages.

    The buffer is the transcript in the store, message for message, from where its last
    compaction begins; whoever writes to one writes to the other. Terminal, processes and files
    are the workbench's, not the agent's.
    """

    def __init__(
        self,
        session_id: SessionId,
        *,
        signature: str,
        prompt: str,
        prompt_shape: str = "",
        prompt_kept: bool = True,
        toolbox: Toolbox,
        client: ModelClient,
        messages: Iterable[Message],
        max_steps: int,
        close: Close | None = None,
        context: Context | None = None,
        sees: bool = True,
    ) -> None:
        self.session_id = session_id
        self.signature = signature
        self.prompt = prompt
        self.prompt_shape = prompt_shape  # of the configuration that made it
        self.prompt_kept = prompt_kept  # it is the one in the store, or on its way there
        self.toolbox = toolbox
        self.client: ModelClient | None = client
        self.messages: list[Message] = []
        self.max_steps = max_steps
        self._close = close
        self._interrupt: Interrupt | None = None
        self.context = context or Context(prompt=prompt)
        self.sees = sees  # its model is shown pictures
        self.size = 0  # bytes the buffer takes, about
        self.active_at: float | None = None  # when its last turn did something; None: none has
        self.told_at: float | None = None  # when its people were last told that it is busy
        for message in messages:
            self.remember(message)
        if record := last_compaction(self.messages):
            self.fold(record)

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        return self.toolbox.schemas

    def remember(self, message: Message) -> None:
        self.messages.append(message)
        self.size += _OVERHEAD + _length(message)
        self.context.add(message)

    def fold(self, record: CompactionMessage) -> None:
        """Drop from the buffer what the record covers. The log keeps it, and no projection of
        the one differs from that of the other."""
        left = self.messages[max(0, record.covers - self.context.skipped) :]
        self.context.begin_again(skipped=max(record.covers, self.context.skipped))
        self.messages, self.size = [], 0
        for message in left:
            self.remember(message)

    async def keep(self, message: Message, durable: Awaitable[None]) -> None:
        """Remember what is on its way to the log, and forget it again if it did not get there.

        Remembered before the await: a cancel may delay the write, but not part the two.
        """
        self.remember(message)
        try:
            await durable
        except StoreError:
            self._forget(message)
            raise

    def _forget(self, message: Message) -> None:
        # By identity: another call's result may stand behind it, or equal it.
        place = next(n for n, m in enumerate(self.messages) if m is message)
        del self.messages[place]
        self.size -= _OVERHEAD + _length(message)

    def lend(self, interrupt: Interrupt | None) -> None:
        """A turn has this agent from now on, and this is how it is stopped; None: no turn has."""
        self._interrupt = interrupt

    def interrupt(self, reason: str) -> bool:
        """End the turn that has this agent, at its next await; False: none has.

        Its user is told the reason; the conversation stays.
        """
        if self._interrupt is None:
            return False
        self._interrupt(reason)
        return True

    async def close(self) -> None:
        """The hard end (A11): all that the session holds is ended, and the client given back.

        Idempotent, and works after `release_clients()`: it acts on the session.
        """
        running = self.interrupt("This conversation was closed.")
        if self._close is not None:
            await self._close(self.session_id)
        if not running:  # else its turn still needs the buffer for its end, and gives it back
            self.release_clients()

    def release_clients(self) -> None:
        """Give the model back and drop the buffer. The session's workbench is not touched.
        Idempotent."""
        if self.client is not None:
            self.client.release()
        self.client = None
        self.messages = []
        self.size = 0


def _length(message: Message) -> int:
    match message:
        case UserMessage():
            told = len(message.text) + len(message.documents or "")
            return told + _pictures(message.images)
        case AssistantMessage():
            thought = sum(len(part.text) + len(part.opaque or "") for part in message.reasoning)
            return len(message.text) + thought + sum(len(c.arguments) for c in message.calls)
        case ToolMessage():
            return len(message.text) + _pictures(message.images)
        case _:
            return len(message.text)


def _pictures(images: Iterable[Image]) -> int:
    return sum(len(image.data or "") for image in images)

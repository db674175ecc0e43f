"""An agent: what is kept of a session between its turns so that the next one starts at once."""

from collections.abc import Awaitable, Callable, Iterable

from holdfast.agent.context import ContextWindow
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

InterruptTurn = Callable[[str], None]
"""Stops the turn that an agent is leased to, for that reason."""

CloseSession = Callable[[SessionId], Awaitable[None]]
"""Ends all that a session holds."""

_MESSAGE_OVERHEAD_BYTES = 400  # bytes of one message besides its text, measured on CPython 3.11


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
        prompt_fingerprint: str = "",
        prompt_saved: bool = True,
        toolbox: Toolbox,
        client: ModelClient,
        messages: Iterable[Message],
        max_steps: int,
        close: CloseSession | None = None,
        window: ContextWindow | None = None,
        accepts_images: bool = True,
    ) -> None:
        self.session_id = session_id
        self.signature = signature
        self.prompt = prompt
        self.prompt_fingerprint = prompt_fingerprint  # of the configuration that made it
        self.prompt_saved = prompt_saved  # it is the one in the store, or on its way there
        self.toolbox = toolbox
        self.client: ModelClient | None = client
        self.messages: list[Message] = []
        self.max_steps = max_steps
        self._close = close
        self._interrupt: InterruptTurn | None = None
        self.window = window or ContextWindow(prompt=prompt)
        self.accepts_images = accepts_images  # its model is shown pictures
        self.size = 0  # bytes the buffer takes, about
        self.active_at: float | None = None  # when its last turn did something; None: none has
        self.busy_notice_at: float | None = None  # when its people were last told that it is busy
        for message in messages:
            self.append(message)
        if record := last_compaction(self.messages):
            self.drop_compacted(record)

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        return self.toolbox.schemas

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.size += _MESSAGE_OVERHEAD_BYTES + _message_bytes(message)
        self.window.add(message)

    def drop_compacted(self, record: CompactionMessage) -> None:
        """Drop from the buffer what the record covers. The log keeps it, and no projection of
        the one differs from that of the other."""
        left = self.messages[max(0, record.covers - self.window.skipped) :]
        self.window.reset(skipped=max(record.covers, self.window.skipped))
        self.messages, self.size = [], 0
        for message in left:
            self.append(message)

    async def append_durably(self, message: Message, durable: Awaitable[None]) -> None:
        """Remember what is on its way to the log, and forget it again if it did not get there.

        Remembered before the await: a cancel may delay the write, but not part the two.
        """
        self.append(message)
        try:
            await durable
        except StoreError:
            self._remove(message)
            raise

    def _remove(self, message: Message) -> None:
        # By identity: another call's result may stand behind it, or equal it.
        place = next(n for n, m in enumerate(self.messages) if m is message)
        del self.messages[place]
        self.size -= _MESSAGE_OVERHEAD_BYTES + _message_bytes(message)

    def set_interrupt(self, interrupt: InterruptTurn | None) -> None:
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


def _message_bytes(message: Message) -> int:
    match message:
        case UserMessage():
            told = len(message.text) + len(message.documents or "")
            return told + _image_bytes(message.images)
        case AssistantMessage():
            thought = sum(len(part.text) + len(part.opaque or "") for part in message.reasoning)
            return len(message.text) + thought + sum(len(c.arguments) for c in message.calls)
        case ToolMessage():
            return len(message.text) + _image_bytes(message.images)
        case _:
            return len(message.text)


def _image_bytes(images: Iterable[Image]) -> int:
    return sum(len(image.data or "") for image in images)

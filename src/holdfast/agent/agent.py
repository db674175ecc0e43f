"""An agent: what is cached of a session between its turns, and how full its context window is."""

from collections.abc import Awaitable, Callable, Iterable

from holdfast.agent.prompt import REQUEST_SEPARATOR, request_fingerprint
from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    Image,
    Message,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.turns.compaction import estimate_text_tokens, estimate_tokens, last_compaction
from holdfast.core.turns.external import Taint, taints_of
from holdfast.core.turns.model import DEFAULT_CONTEXT_WINDOW, ToolSchema
from holdfast.tools.registry import Toolbox

_TOOL_SCHEMA_TOKENS = 2_000  # rough tokens of the tool schemas, which are kept small
_REFUSED_SHARE = 0.95  # above this share, the provider would refuse a call
_TRIM_TARGET_SHARE = 0.85  # old results are left out down to this share
_POSTPONE_SHARE = 0.05  # a failed compaction is retried once this much more is used

InterruptTurn = Callable[[str], None]
"""Stops the turn that uses an agent, for the given reason."""

CloseSession = Callable[[SessionId], Awaitable[None]]
"""Releases all resources of a session."""

_MESSAGE_OVERHEAD_BYTES = 400  # bytes of one message besides its text, measured on CPython 3.11


class ContextWindow:
    """Owns the token count of the context: the provider's count at the last reply, and an estimate
    of what was added since. `skipped` messages of the transcript are not in the buffer: a summary
    covers them.
    """

    __slots__ = ("_compact_at", "_fixed_tokens", "_keep", "_threshold", "size", "skipped", "used")

    def __init__(
        self,
        *,
        size: int = DEFAULT_CONTEXT_WINDOW,
        compact_at: float = 0.8,
        keep: float = 0.25,
        skipped: int = 0,
        prompt: str = "",
    ) -> None:
        self.size = size
        self.skipped = skipped
        self._compact_at = compact_at
        self._keep = keep
        self._threshold = int(size * compact_at)
        self._fixed_tokens = estimate_text_tokens(prompt) + min(_TOOL_SCHEMA_TOKENS, size // 8)
        self.used = self._fixed_tokens

    def add(self, message: Message) -> None:
        self.used += estimate_tokens(message)

    def set_measured(self, input_tokens: int) -> None:
        """Use the provider's count for a request with the whole buffer."""
        if input_tokens:
            self.used = input_tokens

    def reset(self, *, skipped: int) -> None:
        """Start again with a buffer that lacks the first `skipped` messages of the transcript."""
        self.skipped = skipped
        self.used = self._fixed_tokens
        self._threshold = int(self.size * self._compact_at)

    @property
    def is_full(self) -> bool:
        return self.used >= self._threshold

    @property
    def keep_tokens(self) -> int:
        """Tokens of the history that a compaction keeps verbatim."""
        return int(self.size * self._keep)

    @property
    def excess(self) -> int:
        """Tokens that must be left out for the provider to accept a call; usually 0."""
        return max(0, self.used - int(self.size * _TRIM_TARGET_SHARE)) if self._is_over else 0

    def postpone(self) -> None:
        """Record that compaction failed: it is retried when more tokens are used, not at every
        step."""
        self._threshold = self.used + max(1, int(self.size * _POSTPONE_SHARE))

    def shrink(self) -> None:
        """Record that the provider refused the buffer, so its window is smaller than assumed."""
        guess = self.size * 9 // 10 if self._nearly_full else self.used // 2
        self.size = max(1, min(self.size, guess))
        self._threshold = int(self.size * self._compact_at)

    @property
    def _is_over(self) -> bool:
        return self.used > self.size * _REFUSED_SHARE

    @property
    def _nearly_full(self) -> bool:
        return self.size * 8 // 10 <= self.used <= self.size


class Agent:
    """Owns one session's frozen prompt, its lease on a model, and the buffer of its messages.

    The buffer equals the stored transcript, message for message, from its last compaction on;
    each writer writes to both. Terminal, processes and files belong to the sandbox session.
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
        examples: tuple[Message, ...] = (),
        taints: Iterable[Taint] = (),
    ) -> None:
        self.session_id = session_id
        self.signature = signature
        self.prompt = prompt
        self.prompt_fingerprint = prompt_fingerprint  # of the configuration that produced it
        self.prompt_saved = prompt_saved  # it is stored, or its write is queued
        self.toolbox = toolbox
        self.client: ModelClient | None = client
        self.messages: list[Message] = []
        self.max_steps = max_steps
        self._close = close
        self._interrupt: InterruptTurn | None = None
        self.window = window or ContextWindow(prompt=prompt)
        self.accepts_images = accepts_images  # its model has vision
        self.examples = examples  # sent before its messages, and not part of them
        self.size = 0  # approximate bytes of the buffer
        # The sources of external content in the session, also in what a summary covers.
        self.taints: dict[Taint, None] = dict.fromkeys(taints)
        # When its last turn was last active; None if it had no turn yet.
        self.active_at: float | None = None
        self.busy_notice_at: float | None = None  # when the last busy notice was sent
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
        for taint in taints_of(message):
            self.taints[taint] = None

    def drop_compacted(self, record: CompactionMessage) -> None:
        """Drop from the buffer what the record covers. The transcript keeps it, and both have the
        same projection."""
        left = self.messages[max(0, record.covers - self.window.skipped) :]
        self.window.reset(skipped=max(record.covers, self.window.skipped))
        self.messages, self.size = [], 0
        for message in left:
            self.append(message)

    async def append_durably(self, message: Message, durable: Awaitable[None]) -> None:
        """Append a message whose write is queued, and remove it again if the write fails.

        It is appended before the await, so that a cancel cannot separate buffer and transcript.
        """
        self.append(message)
        try:
            await durable
        except StoreError:
            self._remove(message)
            raise

    def _remove(self, message: Message) -> None:
        # By identity: another call's result may follow it, or be equal to it.
        index = next(n for n, m in enumerate(self.messages) if m is message)
        del self.messages[index]
        self.size -= _MESSAGE_OVERHEAD_BYTES + _message_bytes(message)

    def has_instructions(self, instructions: str) -> bool:
        """Whether the frozen prompt was made with these instructions of a message."""
        stored = self.prompt_fingerprint
        config = stored.partition(REQUEST_SEPARATOR)[0]
        return request_fingerprint(config, instructions) == stored

    def mark_prompt_saved(self) -> None:
        """Record that the prompt is stored, or its write queued."""
        self.prompt_saved = True

    def set_interrupt(self, interrupt: InterruptTurn | None) -> None:
        """Set the function that stops the turn that uses this agent; None if no turn uses it."""
        self._interrupt = interrupt

    def interrupt(self, reason: str) -> bool:
        """Stop the turn that uses this agent at its next await; False if there is none.

        The user gets the reason; the conversation stays.
        """
        if self._interrupt is None:
            return False
        self._interrupt(reason)
        return True

    async def close(self) -> None:
        """The hard end (A11): release all resources of the session, and the model client.

        Idempotent, and works after `release_clients()`: it acts on the session.
        """
        running = self.interrupt("This conversation was closed.")
        if self._close is not None:
            await self._close(self.session_id)
        if not running:  # otherwise the turn needs the buffer to end, and releases it
            self.release_clients()

    def release_clients(self) -> None:
        """Release the model client and drop the buffer. The sandbox session is not touched.
        Idempotent."""
        if self.client is not None:
            self.client.release()
        self.client = None
        self.messages = []
        self.size = 0


def _message_bytes(message: Message) -> int:
    match message:
        case UserMessage():
            text = len(message.text) + len(message.documents or "")
            return text + _image_bytes(message.images)
        case AssistantMessage():
            size = len(message.text)
            for part in message.reasoning:
                size += len(part.text) + len(part.opaque or "")
            for call in message.calls:
                size += len(call.arguments)
            return size
        case ToolMessage():
            return len(message.text) + _image_bytes(message.images)
        case _:
            return len(message.text)


def _image_bytes(images: Iterable[Image]) -> int:
    size = 0
    for image in images:
        size += len(image.data or "")
    return size

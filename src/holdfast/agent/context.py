"""The context of an agent: how much of its model's window is taken, and when to make room."""

from holdfast.core.messages.message import Message
from holdfast.core.turns.known_models import DEFAULT_CONTEXT_WINDOW
from holdfast.core.turns.tokens import estimate_text_tokens, estimate_tokens

_TOOL_SCHEMA_TOKENS = 2_000  # tokens of the tools' schemas, about: they are small on purpose
_REFUSED_SHARE = 0.95  # past this share, a call would be refused
_TRIM_TARGET_SHARE = 0.85  # what is left out makes room down to this share
_POSTPONE_SHARE = 0.05  # a summary that failed is tried again once so much more is taken


class ContextWindow:
    """Owns the account of the window: what the last reply truly took, and an estimate of what
    was added since. `skipped` messages of the log are not in the buffer: a summary covers them.
    """

    __slots__ = ("_compact_at", "_fixed_tokens", "_keep", "_threshold", "skipped", "used", "size")

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
        """What a request with all that is remembered took, as its provider counts."""
        if input_tokens:
            self.used = input_tokens

    def reset(self, *, skipped: int) -> None:
        """The buffer is filled anew, after so many messages of the log."""
        self.skipped = skipped
        self.used = self._fixed_tokens
        self._threshold = int(self.size * self._compact_at)

    @property
    def is_full(self) -> bool:
        return self.used >= self._threshold

    @property
    def keep_tokens(self) -> int:
        """Tokens of the history that stay word for word."""
        return int(self.size * self._keep)

    @property
    def excess(self) -> int:
        """Tokens that must be left out for a call to be taken at all; mostly 0."""
        return max(0, self.used - int(self.size * _TRIM_TARGET_SHARE)) if self._is_over else 0

    def postpone(self) -> None:
        """No room could be made: it is tried again when more is taken, not at every step."""
        self._threshold = self.used + max(1, int(self.size * _POSTPONE_SHARE))

    def shrink(self) -> None:
        """The provider refused what is remembered, so the window is smaller than was thought."""
        guess = self.size * 9 // 10 if self._nearly_full else self.used // 2
        self.size = max(1, min(self.size, guess))
        self._threshold = int(self.size * self._compact_at)

    @property
    def _is_over(self) -> bool:
        return self.used > self.size * _REFUSED_SHARE

    @property
    def _nearly_full(self) -> bool:
        return self.size * 8 // 10 <= self.used <= self.size

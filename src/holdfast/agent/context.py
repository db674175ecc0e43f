"""The context of an agent: how much of its model's window is taken, and when to make room."""

from holdfast.core.messages.message import Message
from holdfast.core.turns.known_models import DEFAULT_WINDOW
from holdfast.core.turns.tokens import estimate, of_text

_BESIDE = 2_000  # tokens of the tools' schemas, about: they are small on purpose
_OVER = 0.95  # past this share, a call would be refused
_LIGHT = 0.85  # what is left out makes room down to this share
_LATER = 0.05  # a summary that failed is tried again once so much more is taken


class Context:
    """Owns the account of the window: what the last reply truly took, and an estimate of what
    was added since. `skipped` messages of the log are not in the buffer: a summary covers them.
    """

    __slots__ = ("_at", "_beside", "_keep", "_room", "skipped", "used", "window")

    def __init__(
        self,
        *,
        window: int = DEFAULT_WINDOW,
        at: float = 0.8,
        keep: float = 0.25,
        skipped: int = 0,
        prompt: str = "",
    ) -> None:
        self.window = window
        self.skipped = skipped
        self._at = at
        self._keep = keep
        self._room = int(window * at)
        self._beside = of_text(prompt) + min(_BESIDE, window // 8)
        self.used = self._beside

    def add(self, message: Message) -> None:
        self.used += estimate(message)

    def measured(self, input_tokens: int) -> None:
        """What a request with all that is remembered took, as its provider counts."""
        if input_tokens:
            self.used = input_tokens

    def begin_again(self, *, skipped: int) -> None:
        """The buffer is filled anew, after so many messages of the log."""
        self.skipped = skipped
        self.used = self._beside
        self._room = int(self.window * self._at)

    @property
    def full(self) -> bool:
        return self.used >= self._room

    @property
    def keep(self) -> int:
        """Tokens of the history that stay word for word."""
        return int(self.window * self._keep)

    @property
    def excess(self) -> int:
        """Tokens that must be left out for a call to be taken at all; mostly 0."""
        return max(0, self.used - int(self.window * _LIGHT)) if self._over else 0

    def put_off(self) -> None:
        """No room could be made: it is tried again when more is taken, not at every step."""
        self._room = self.used + max(1, int(self.window * _LATER))

    def was_too_long(self) -> None:
        """The provider refused what is remembered, so the window is smaller than was thought."""
        guess = self.window * 9 // 10 if self._nearly_full else self.used // 2
        self.window = max(1, min(self.window, guess))
        self._room = int(self.window * self._at)

    @property
    def _over(self) -> bool:
        return self.used > self.window * _OVER

    @property
    def _nearly_full(self) -> bool:
        return self.window * 8 // 10 <= self.used <= self.window

"""Collects the text of a document up to a limit."""


class UnreadableDocument(Exception):
    """Nothing can be read in it; the text says why, for the agent and its user."""


class LimitReached(Exception):
    """The document has more text than was requested."""


class TextBuffer:
    """Owns the text so far. A document may be a thousand times longer than the limit, so `add`
    raises `LimitReached`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[str] = []
        self._length = 0
        self._line_ends = 2  # consecutive line ends: none at the beginning, and never three

    @property
    def text(self) -> str:
        return "".join(self._parts).strip()

    def add(self, text: str) -> None:
        if not text:
            return
        left = max(0, self._limit - self._length)
        self._parts.append(text[:left])
        self._length += len(text)
        self._line_ends = 0
        if self._length > self._limit:
            raise LimitReached

    def new_line(self) -> None:
        """Begin a new line, with at most one empty line above it."""
        if self._line_ends < 2:
            self._line_ends += 1
            self._parts.append("\n")
            self._length += 1

"""Splitting: a text as the messages that it takes where one has a greatest length."""

_ENDS = ("\n\n", "\n", " ")  # where a reader would pause, the best first


def split(text: str, limit: int | None) -> tuple[str, ...]:
    """The parts, in order: joined, they are the text, but for parts of nothing but space, which
    no platform takes. The same text and limit give the same parts, in whatever process."""
    if limit is None or len(text) <= limit:
        return (text,)
    parts = []
    while len(text) > limit:
        at = _cut(text, limit)
        parts.append(text[:at])
        text = text[at:]
    return tuple(part for part in (*parts, text) if part.strip()) or (text,)


def _cut(text: str, limit: int) -> int:
    """Behind the last good place in the second half; a word as long as that is cut through."""
    for end in _ENDS:
        at = text.rfind(end, limit // 2, limit)
        if at != -1:
            return at + len(end)
    return limit

"""Redaction: the last gate before anything is kept or said; it knows every secret by value."""

from collections.abc import Iterable

from holdfast.core.secret import Secret

MARK = "[redacted]"
_SHORTEST = 8  # a shorter value would tear holes into ordinary text


class Redaction:
    """Owns the exact values of all secrets, and takes them out of any text."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        values = {secret.reveal() for secret in secrets}
        # Longest first, or a secret that contains another would leave its rest behind.
        self._values = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            if value in text:
                text = text.replace(value, MARK)
        return text

    def stream(self, text: str) -> tuple[str, str]:
        """What of a growing text can be shown, and what must wait for more of it."""
        text = self(text)
        held = max((_begun(value, text) for value in self._values), default=0)
        return (text[:-held], text[-held:]) if held else (text, "")


def _begun(value: str, text: str) -> int:
    """How many characters at the end of the text are the beginning of the value."""
    at = text.find(value[0], max(0, len(text) - len(value) + 1))
    while at != -1:
        if value.startswith(text[at:]):
            return len(text) - at
        at = text.find(value[0], at + 1)
    return 0

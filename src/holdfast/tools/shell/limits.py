"""Limits: how much of a script is read before nobody would follow it any further."""

from holdfast.tools.shell.grammar import is_overgrown

MOST_STEPS = 4000
DEEPEST = 48
MOST_TEXT = 250_000
MOST_ROUNDS = 16  # of a loop over known words


class Tangled(Exception):
    """There is more in a script than anybody would read."""


class Limits:
    """Owns how far one reading has come. `with limits:` is one level further down."""

    def __init__(self) -> None:
        self._steps = 0
        self._length = 0
        self._depth = 0

    @property
    def at_the_top(self) -> bool:
        return self._depth == 0

    def take(self, script: str) -> None:
        """One more script, of all that are read in one; raises Tangled for one too many."""
        self._length += len(script)
        if self._length > MOST_TEXT or is_overgrown(script):
            raise Tangled

    # Entered for every statement and every call: a generator would cost more than the rest of it.

    def __enter__(self) -> None:
        """One level further down; raises Tangled where nobody would follow."""
        self._steps += 1
        if self._steps > MOST_STEPS or self._depth > DEEPEST:
            raise Tangled
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1

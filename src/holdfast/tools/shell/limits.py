"""Limits: how much of a script is read before nobody would follow it any further."""

from holdfast.tools.shell.grammar import is_too_complex

MAX_STEPS = 4000
MAX_DEPTH = 48
MAX_TEXT = 250_000
MAX_ITERATIONS = 16  # of a loop over known words


class ScriptTooComplex(Exception):
    """There is more in a script than anybody would read."""


class AnalysisLimits:
    """Owns how far one reading has come. `with limits:` is one level further down."""

    def __init__(self) -> None:
        self._steps = 0
        self._length = 0
        self._depth = 0

    @property
    def at_top_level(self) -> bool:
        return self._depth == 0

    def count_script(self, script: str) -> None:
        """One more script, of all that are read in one; raises Tangled for one too many."""
        self._length += len(script)
        if self._length > MAX_TEXT or is_too_complex(script):
            raise ScriptTooComplex

    # Entered for every statement and every call: a generator would cost more than the rest of it.

    def __enter__(self) -> None:
        """One level further down; raises Tangled where nobody would follow."""
        self._steps += 1
        if self._steps > MAX_STEPS or self._depth > MAX_DEPTH:
            raise ScriptTooComplex
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1

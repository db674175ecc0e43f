"""A tool call on one line: what was called with what, and how it went."""

from holdfast.core.messages.call_line import told_in_a_line
from holdfast.core.messages.message import Outcome

_COLOURS = {Outcome.OK: "green", Outcome.ERROR: "red"}


def folded(name: str, arguments: str) -> str:
    """`terminal: ls -la`: the tool and the argument that tells most."""
    told = told_in_a_line(arguments)
    return f"▸ {name}: {told}" if told else f"▸ {name}"


def verdict(outcome: Outcome, seconds: float | None) -> tuple[str, str]:
    """The end of that line, and its colour."""
    took = "" if seconds is None else f" {_took(seconds)}"
    return f"… {outcome.replace('_', ' ')}{took}", _COLOURS.get(outcome, "yellow")


def last_line(output: str) -> str:
    lines = output.rstrip().splitlines()
    return lines[-1].strip() if lines else ""


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

"""A tool call on one line: what was called with what, and how it went."""

from holdfast.core.messages.call_line import summarise_arguments
from holdfast.core.messages.message import ToolOutcome

_OUTCOME_COLOURS = {ToolOutcome.OK: "green", ToolOutcome.ERROR: "red"}


def format_call(name: str, arguments: str) -> str:
    """`terminal: ls -la`: the tool and the argument that tells most."""
    told = summarise_arguments(arguments)
    return f"▸ {name}: {told}" if told else f"▸ {name}"


def format_outcome(outcome: ToolOutcome, seconds: float | None) -> tuple[str, str]:
    """The end of that line, and its colour."""
    took = "" if seconds is None else f" {_format_seconds(seconds)}"
    return f"… {outcome.replace('_', ' ')}{took}", _OUTCOME_COLOURS.get(outcome, "yellow")


def last_line(output: str) -> str:
    lines = output.rstrip().splitlines()
    return lines[-1].strip() if lines else ""


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

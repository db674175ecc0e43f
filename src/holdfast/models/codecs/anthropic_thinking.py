"""How a Claude is told to think, and how much it may say: both differ from model to model."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NEWEST = (99, 0)
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_000, "high": 24_000}
_ADAPTIVE = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
_MIN_BUDGET = 1024
_MIN_REPLY_TOKENS = 1024


def claude_version(name: str) -> tuple[int, int] | None:
    """The version in a model's name; None: it is no Claude. A name without one is a new model."""
    if "claude" not in name:
        return None
    found = _VERSION.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else _NEWEST


def limit_max_tokens(name: str, requested: int | None) -> int:
    """What a reply may take, thoughts included: the API insists on a number."""
    version = claude_version(name)
    if version is None:
        most = 8192
    elif version < (3, 5):
        most = 4096
    else:
        most = 8192 if version < (3, 7) else 32_000
    return min(requested, most) if requested is not None else most


def thinking_fields(
    name: str, effort: str | None, *, max_tokens: int, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What the body says of thinking: an effort where the model decides, a budget before that,
    nothing where it cannot think."""
    version = claude_version(name)
    if version is None or version < (3, 7) or effort not in _BUDGETS:
        return {}
    if version >= (4, 6):
        thinking = {"type": "adaptive", "display": "summarized"}
        return {"thinking": thinking, "output_config": {"effort": _ADAPTIVE[effort]}}
    budget = min(_BUDGETS[effort], max_tokens - _MIN_REPLY_TOKENS)
    if budget < _MIN_BUDGET or not _can_start_thinking(messages):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def needs_interleaved_beta(name: str) -> bool:
    """Whether it thinks between its tool calls only when a header asks for it."""
    version = claude_version(name)
    return version is not None and (4, 0) <= version < (4, 6)


def _can_start_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    """With a budget, the reply whose tools have just run must begin with a thought; one that
    another model made, or this one without thinking, has none to show."""
    if messages[-1]["content"][0]["type"] != "tool_result":
        return True
    return "thinking" in messages[-2]["content"][0]["type"]

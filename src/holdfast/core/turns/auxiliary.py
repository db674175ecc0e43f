"""Auxiliary calls: what a model is asked beside the conversation, and why such a call failed."""

from enum import StrEnum

from holdfast.core.errors import ModelError
from holdfast.core.turns.turn import NO_USAGE, Usage


class AuxiliaryTask(StrEnum):
    TITLE = "title"
    SUMMARY = "summary"
    VISION = "vision"


class AuxiliaryFailed(ModelError):
    """No answer came of it; whoever asked goes on without. `again`: it may be tried again.
    `usage`: what it took all the same."""

    def __init__(self, message: str, *, retryable: bool = True, usage: Usage = NO_USAGE) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.usage = usage

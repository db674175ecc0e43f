"""An outfit: what a configuration comes to for those who answer."""

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.config.settings import Settings
from holdfast.core.ports.protocols import ModelClient
from holdfast.core.secret import Secret
from holdfast.core.turns.model import ModelChoice
from holdfast.tools.registry import Toolbox

LeaseModel = Callable[[str | None], ModelClient]
"""Leases a model: the configured one, or the one a session was told to use instead."""


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    lease: LeaseModel
    model: ModelChoice
    api_key: Secret | None
    fallback_keys: Sequence[Secret] = ()  # of the models that stand in for it
    toolbox: Toolbox
    secrets: Sequence[Secret] = ()  # whatever must never be said

"""The voices of a gateway: the chosen model and its stand-ins, to be leased."""

from collections.abc import Mapping
from functools import partial

import msgspec

from holdfast.core.config.settings import FallbackModel, ModelSettings, Provider
from holdfast.core.ports.protocols import ModelClient
from holdfast.core.secret import Secret
from holdfast.models.fallback import FallbackClient
from holdfast.models.local.files import find_model_file
from holdfast.models.pool import ModelPool
from holdfast.models.target import ModelTarget, make_target


class ModelLeases:
    """Knows the targets that `[model]` describes; owns nothing but them.

    Making it raises `InvalidTarget` for the first model that could not be called: at the start,
    when somebody looks, and not when it is needed.
    """

    def __init__(
        self, settings: ModelSettings, pool: ModelPool, *, secrets: Mapping[str, Secret]
    ) -> None:
        self._pool = pool
        self.targets = tuple(model_targets(settings, secrets=secrets))

    def lease(self, override: str | None = None) -> ModelClient:
        """The model, or another of the same provider by its name. Its stand-ins stand by."""
        first, *others = self.targets
        named = msgspec.structs.replace(first, name=override or first.name)
        client = self._pool.lease(named)
        if not others:
            return client
        return FallbackClient(
            client, fallbacks=[partial(self._pool.lease, target) for target in others]
        )


def model_targets(settings: ModelSettings, *, secrets: Mapping[str, Secret]) -> list[ModelTarget]:
    """The model first, then those that stand in for it, in order. Raises `InvalidTarget`."""
    targets = [make_target(settings, api_key=secrets.get("model.api_key"))]
    for index, fallback in enumerate(settings.fallbacks):
        key = secrets.get(f"model.fallbacks[{index}].api_key")
        targets.append(make_target(_fallback_settings(fallback, settings), api_key=key))
    for target in targets:
        if target.embedded:
            find_model_file(target.name)
    return targets


def _fallback_settings(fallback: FallbackModel, settings: ModelSettings) -> ModelSettings:
    """A stand-in has the patience of the model it stands in for."""
    return msgspec.structs.replace(
        settings,
        provider=Provider(fallback.provider),
        name=fallback.name,
        api_mode=fallback.api_mode,
        base_url=fallback.base_url,
        api_key=fallback.api_key,
        fallbacks=(),
    )

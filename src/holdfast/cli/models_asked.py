"""What the models of a home say when they are asked, for `holdfast models`."""

import time
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config import Config, load
from holdfast.core.config.settings import Provider
from holdfast.core.errors import ModelError
from holdfast.models.choice import SelectedModel, select_model
from holdfast.models.model_check import ModelCheckResult, check_model
from holdfast.models.pool import ModelPool
from holdfast.models.target import ModelTarget
from holdfast.models.voices import model_targets


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is set up or was found. `key` is the reference, never what it refers to."""

    role: str  # "model", or which of its stand-ins
    provider: str
    name: str
    api_mode: str
    base_url: str
    key: str
    why: str
    offers: tuple[str, ...] = ()  # every model its server lists
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


class CheckedModel(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    name: str
    api_mode: str
    base_url: str
    checkup: ModelCheckResult

    def as_dict(self) -> dict[str, Any]:
        own = msgspec.structs.asdict(self)
        return own | msgspec.structs.asdict(own.pop("checkup"))


async def describe_models(home: Path) -> list[ListedModel]:
    """Every model of this home, each with what its server offers."""
    config = load(home)
    chosen = await _choose_model(config)
    async with ModelPool() as pool:
        targets = model_targets(chosen.settings, secrets=config.secrets)
        return [await _describe_model(pool, chosen, target, n) for n, target in enumerate(targets)]


async def probe_models(home: Path, name: str | None) -> list[CheckedModel]:
    """A check-up of each model, or of the one of that name."""
    config = load(home)
    targets = model_targets((await _choose_model(config)).settings, secrets=config.secrets)
    async with ModelPool() as pool:
        return [await _probe_model(pool, target) for target in _select_targets(targets, name)]


async def _choose_model(config: Config) -> SelectedModel:
    origin = config.origins.get("model.provider", "")
    return await select_model(config.settings.model, origin=origin)


async def _describe_model(
    pool: ModelPool, chosen: SelectedModel, target: ModelTarget, index: int
) -> ListedModel:
    found = ListedModel(
        role=f"stand-in {index}" if index else "model",
        provider=target.provider,
        name=target.name,
        api_mode=target.api_mode,
        base_url=target.base_url,
        key=target.key_reference,
        why="stands in when those before it fail" if index else chosen.choice.why,
    )
    try:
        return msgspec.structs.replace(found, offers=await pool.list_models(target))
    except ModelError as error:
        return msgspec.structs.replace(found, problem=str(error))


async def _probe_model(pool: ModelPool, target: ModelTarget) -> CheckedModel:
    # Once more at the most, for a connection that was kept too long: whoever checks wants to
    # see the failure, not to wait until it has passed.
    client = pool.lease(msgspec.structs.replace(target, retries=1))
    found = await check_model(client, now=time.monotonic)
    if target.provider is Provider.DEMO:
        found = msgspec.structs.replace(found, tools=None)  # it uses only those it has a part for
    return CheckedModel(
        provider=target.provider,
        name=target.name,
        api_mode=target.api_mode,
        base_url=target.base_url,
        checkup=found,
    )


def _select_targets(targets: list[ModelTarget], name: str | None) -> list[ModelTarget]:
    if name is None:
        return targets
    known = [target for target in targets if target.name == name]
    return known or [msgspec.structs.replace(targets[0], name=name)]

"""What the models of a home say when they are asked, for `holdfast models`."""

import time
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config import Config, load
from holdfast.core.config.settings import Provider
from holdfast.core.errors import ModelError
from holdfast.models.choice import Chosen, choose
from holdfast.models.model_check import Checkup, check_up
from holdfast.models.pool import ModelPool
from holdfast.models.target import ModelTarget
from holdfast.models.voices import targets_of


class Listed(msgspec.Struct, frozen=True, kw_only=True):
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

    def shown(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    name: str
    api_mode: str
    base_url: str
    checkup: Checkup

    def shown(self) -> dict[str, Any]:
        own = msgspec.structs.asdict(self)
        return own | msgspec.structs.asdict(own.pop("checkup"))


async def listed(home: Path) -> list[Listed]:
    """Every model of this home, each with what its server offers."""
    config = load(home)
    chosen = await _chosen(config)
    async with ModelPool() as pool:
        targets = targets_of(chosen.settings, secrets=config.secrets)
        return [await _listed(pool, chosen, target, n) for n, target in enumerate(targets)]


async def checked(home: Path, name: str | None) -> list[Checked]:
    """A check-up of each model, or of the one of that name."""
    config = load(home)
    targets = targets_of((await _chosen(config)).settings, secrets=config.secrets)
    async with ModelPool() as pool:
        return [await _checked(pool, target) for target in _named(targets, name)]


async def _chosen(config: Config) -> Chosen:
    origin = config.origins.get("model.provider", "")
    return await choose(config.settings.model, origin=origin)


async def _listed(pool: ModelPool, chosen: Chosen, target: ModelTarget, place: int) -> Listed:
    found = Listed(
        role=f"stand-in {place}" if place else "model",
        provider=target.provider,
        name=target.name,
        api_mode=target.api_mode,
        base_url=target.base_url,
        key=target.key_reference,
        why="stands in when those before it fail" if place else chosen.choice.why,
    )
    try:
        return msgspec.structs.replace(found, offers=await pool.models(target))
    except ModelError as error:
        return msgspec.structs.replace(found, problem=str(error))


async def _checked(pool: ModelPool, target: ModelTarget) -> Checked:
    # Once more at the most, for a connection that was kept too long: whoever checks wants to
    # see the failure, not to wait until it has passed.
    client = pool.lease(msgspec.structs.replace(target, retries=1))
    found = await check_up(client, now=time.monotonic)
    if target.provider is Provider.DEMO:
        found = msgspec.structs.replace(found, tools=None)  # it uses only those it has a part for
    return Checked(
        provider=target.provider,
        name=target.name,
        api_mode=target.api_mode,
        base_url=target.base_url,
        checkup=found,
    )


def _named(targets: list[ModelTarget], name: str | None) -> list[ModelTarget]:
    if name is None:
        return targets
    known = [target for target in targets if target.name == name]
    return known or [msgspec.structs.replace(targets[0], name=name)]

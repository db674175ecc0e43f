"""The choice of a model where the settings leave it open, and the words for why it is this one."""

from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import ModelSettings, Provider
from holdfast.core.turns.model import ModelChoice
from holdfast.models.discovery import find_server
from holdfast.models.target import EMBEDDED, name_of

_USUAL = {11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp", 8000: "vLLM"}


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` name a provider; `choice` is what people are told of it."""

    settings: ModelSettings
    choice: ModelChoice


async def choose(settings: ModelSettings, *, origin: str) -> Chosen:
    """The settings with a provider in place of "auto": a server on this machine that answers,
    else the demo. `origin` says who named the provider, where somebody did."""
    if settings.provider is not Provider.AUTO:
        return _chosen(settings, f"set by {origin}" if origin else "set in the configuration")
    server = await find_server(settings.discover)
    if server is None:
        demo = msgspec.structs.replace(settings, provider=Provider.DEMO, name="", api_mode=None)
        return _chosen(demo, "no API key is set and no model server answers on this machine")
    found = msgspec.structs.replace(
        settings,
        provider=Provider.LOCAL,
        base_url=server.base_url,
        name=settings.name or server.models[0],
    )
    return _chosen(found, f"{_who(server.base_url)} answers at {server.base_url}")


def _chosen(settings: ModelSettings, why: str) -> Chosen:
    name = name_of(settings)
    if name == EMBEDDED:
        why += "; it is small and cannot use tools"
    choice = ModelChoice(provider=settings.provider, name=name, why=why)
    return Chosen(settings=settings, choice=choice)


def _who(base_url: str) -> str:
    return _USUAL.get(urlsplit(base_url).port or 0, "a model server")

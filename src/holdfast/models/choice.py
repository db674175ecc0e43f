"""The choice of a model where the settings leave it open, and the words for why it is this one."""

from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import ModelSettings, Provider
from holdfast.core.turns.model import ModelChoice
from holdfast.models.discovery import find_server
from holdfast.models.target import EMBEDDED_MODEL, model_name

_KNOWN_PORTS = {11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp", 8000: "vLLM"}


class SelectedModel(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` name a provider; `choice` is what people are told of it."""

    settings: ModelSettings
    choice: ModelChoice


async def select_model(settings: ModelSettings, *, origin: str) -> SelectedModel:
    """The settings with a provider in place of "auto": a server on this machine that answers,
    else the demo. `origin` says who named the provider, where somebody did."""
    if settings.provider is not Provider.AUTO:
        return _selected(settings, f"set by {origin}" if origin else "set in the configuration")
    server = await find_server(settings.discover)
    if server is None:
        demo = msgspec.structs.replace(settings, provider=Provider.DEMO, name="", api_mode=None)
        return _selected(demo, "no API key is set and no model server answers on this machine")
    found = msgspec.structs.replace(
        settings,
        provider=Provider.LOCAL,
        base_url=server.base_url,
        name=settings.name or server.models[0],
    )
    return _selected(found, f"{_server_name(server.base_url)} answers at {server.base_url}")


def _selected(settings: ModelSettings, reason: str) -> SelectedModel:
    name = model_name(settings)
    if name == EMBEDDED_MODEL:
        reason += "; it is small and cannot use tools"
    choice = ModelChoice(provider=settings.provider, name=name, why=reason)
    return SelectedModel(settings=settings, choice=choice)


def _server_name(base_url: str) -> str:
    return _KNOWN_PORTS.get(urlsplit(base_url).port or 0, "a model server")

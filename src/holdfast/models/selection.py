"""Selects a model where the settings leave it open: a local server that answers, else the demo."""

import asyncio
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import ModelSettings, Provider
from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import N_
from holdfast.core.turns.model import ModelChoice, model_profile
from holdfast.models.target import model_name

DISCOVERY_TIMEOUT = 0.3  # seconds for all servers together: the start waits for this
_MAX_BYTES = 1024 * 1024
_NON_CHAT_MODELS = ("embed", "rerank", "whisper", "tts")  # servers list them beside chat models
_KNOWN_PORTS = {11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp", 8000: "vLLM"}


class ModelServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server with an OpenAI-compatible API, and its models in its own order."""

    base_url: str
    models: tuple[str, ...]


class _Model(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Model]


async def find_server(
    addresses: Iterable[str], *, within: float = DISCOVERY_TIMEOUT
) -> ModelServer | None:
    """The first of these addresses, in their order, that serves a model. All are asked at once,
    for at most `within` seconds."""
    asked = [asyncio.create_task(_probe(address)) for address in addresses]
    if not asked:
        return None
    done, late = await asyncio.wait(asked, timeout=within)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)
    return next((server for task in asked if task in done and (server := task.result())), None)


def parse_model_names(body: bytes) -> tuple[str, ...] | None:
    """The names in a model list; None: the body is not a model list."""
    try:
        return tuple(model.id for model in msgspec.json.decode(body, type=_Listing).data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def chat_models(names: Iterable[str]) -> tuple[str, ...]:
    """Those that can hold a conversation, as far as a name tells."""
    return tuple(id for id in names if not any(word in id.lower() for word in _NON_CHAT_MODELS))


async def _probe(base_url: str) -> ModelServer | None:
    try:
        answer = await _fetch_models(base_url)
    except (OSError, ValueError, asyncio.IncompleteReadError):
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        return None
    chat = chat_models(parse_model_names(body) or ())
    return ModelServer(base_url=base_url.rstrip("/"), models=chat) if chat else None


async def _fetch_models(base_url: str) -> bytes:
    # Without a client library, whose import would take longer than the request. HTTP/1.0, so that
    # the response comes in one piece and the connection ends with it.
    parts = urlsplit(base_url.rstrip("/") + "/models")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    reader, writer = await asyncio.open_connection(
        parts.hostname, port, ssl=parts.scheme == "https" or None
    )
    try:
        writer.write(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
        answer = b""
        while len(answer) < _MAX_BYTES and (chunk := await reader.read(65536)):
            answer += chunk
        return answer
    finally:
        writer.close()


class SelectedModel(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` name a provider; `choice` is what people see of it."""

    settings: ModelSettings
    choice: ModelChoice


async def select_model(settings: ModelSettings, *, origin: str) -> SelectedModel:
    """The settings with a provider in place of "auto": a server on this machine that answers,
    else the demo. `origin` says where the provider was set, if it was."""
    if settings.provider is not Provider.AUTO:
        if not origin:
            return _selected(settings, Translatable(N_("set in the configuration")))
        return _selected(settings, Translatable(N_("set by {origin}"), {"origin": origin}))
    server = await find_server(settings.discover)
    if server is None:
        demo = msgspec.structs.replace(settings, provider=Provider.DEMO, name="", api_mode=None)
        why = N_("no API key is set and no model server answers on this machine")
        return _selected(demo, Translatable(why))
    found = msgspec.structs.replace(
        settings,
        provider=Provider.LOCAL,
        base_url=server.base_url,
        name=settings.name or server.models[0],
    )
    return _selected(found, _answers_at(server.base_url))


def _selected(settings: ModelSettings, reason: Translatable) -> SelectedModel:
    name = model_name(settings)
    if not model_profile(name).uses_tools:
        small = N_("{reason}; it is small and cannot use tools")
        reason = Translatable(small, {"reason": reason})
    choice = ModelChoice(provider=settings.provider, name=name, why=reason)
    return SelectedModel(settings=settings, choice=choice)


def _answers_at(base_url: str) -> Translatable:
    server = _KNOWN_PORTS.get(urlsplit(base_url).port or 0)
    if server is None:
        return Translatable(N_("a model server answers at {address}"), {"address": base_url})
    text = N_("{server} answers at {address}")
    return Translatable(text, {"server": server, "address": base_url})

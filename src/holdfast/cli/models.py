"""`holdfast models`: lists and checks the configured models; the test call of `holdfast setup`."""

import asyncio
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json, print_table
from holdfast.config import Config, load
from holdfast.core.config.settings import Provider
from holdfast.core.errors import ModelError
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.text.translation import N_, _
from holdfast.core.turns.model import Completed, ModelRequest, TextDelta, model_profile
from holdfast.models.fallback import model_targets
from holdfast.models.model_check import ModelCheckResult, check_model
from holdfast.models.pool import ModelPool
from holdfast.models.selection import ModelServer, SelectedModel, chat_models, select_model
from holdfast.models.target import ModelTarget
from holdfast.system import exit_codes

_MAX_MODEL_NAMES = 12  # some servers have hundreds
_DEMO_NOTE = N_(
    "This is a script, not a model. It shows what agents do; run `holdfast setup` to choose a "
    "model."
)
_NO_TOOLS_NOTE = N_(
    "This small model answers simple questions briefly, in English. It often makes mistakes, and "
    "it cannot run commands, read files or use other tools; run `holdfast setup` to choose a "
    "larger model."
)


@click.group("models")
@home_option
def command() -> None:
    """List the configured models, or check whether they work.

    Uses the keys of the configuration; no gateway needs to run. Keys are never shown.

    \b
    Examples:
      holdfast models list
      holdfast models check
    """


@command.command("list", short_help="Show the model that answers, and its fallbacks.")
@home_option
@json_option
def list_models(as_json: bool) -> None:
    """Show the model that answers, why it was chosen, and its fallbacks."""
    found = asyncio.run(describe_models(chosen_home()))
    if as_json:
        print_json({"models": [each.as_dict() for each in found]})
        return
    rows = [(each.role, each.provider, each.name, each.api_mode, each.base_url) for each in found]
    print_table((_("ROLE"), _("PROVIDER"), _("NAME"), _("MODE"), _("ADDRESS")), rows)
    for each in found:
        click.echo(f"\n{click.style(each.name, bold=True)}: {each.why}")
        if each.offers != (each.name,):
            click.echo(f"  {_offers_text(each)}")


@command.command("check")
@home_option
@json_option
@click.argument("name", required=False)
def check_models(as_json: bool, name: str | None) -> None:
    """Call the models: are they reachable, do they stream and use tools, how fast are they?

    With NAME, only this model is called: one of the list, or another model of the first one's
    provider. Makes two short calls to each model, which a provider may charge for. Exits with 1 if
    a model does not answer.
    """
    found = asyncio.run(probe_models(chosen_home(), name))
    if as_json:
        print_json({"models": [each.as_dict() for each in found]})
    else:
        headers = (
            _("MODEL"),
            _("PROVIDER"),
            _("REACHABLE"),
            _("STREAMS"),
            _("TOOLS"),
            _("FIRST TOKEN"),
            _("TOKENS/S"),
        )
        print_table(headers, [_check_row(each) for each in found])
        for each in found:
            if each.checkup.reachable and each.note:
                click.echo(f"\n{click.style(each.name, bold=True)}: {_(each.note)}")
            if each.checkup.problem:
                click.echo(f"\n{each.name}: {each.checkup.problem}", err=True)
    sys.exit(exit_codes.OK if all(each.checkup.reachable for each in found) else exit_codes.FAILED)


def _offers_text(model: "ListedModel") -> str:
    if model.problem:
        return _("Its server's models could not be listed: {reason}").format(reason=model.problem)
    names = ", ".join(model.offers[:_MAX_MODEL_NAMES])
    more = len(model.offers) - _MAX_MODEL_NAMES
    if more > 0:
        return _("Its server offers {names} and {n} more.").format(names=names, n=more)
    return _("Its server offers {names}.").format(names=names)


def _check_row(model: "CheckedModel") -> tuple[str, ...]:
    found = model.checkup
    first, speed = found.first_token_ms, found.tokens_per_second
    return (
        model.name,
        model.provider,
        _yes_no(found.reachable),
        _yes_no(found.streams),
        _yes_no(found.tools),
        "-" if first is None else _("{ms:.0f} ms").format(ms=first),
        "-" if speed is None else f"{speed:.0f}",
    )


def _yes_no(found: bool | None) -> str:
    return "-" if found is None else _("yes") if found else _("no")


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A configured or discovered model. `key` is the reference, never the key itself."""

    role: str  # "model", or "fallback N"
    provider: str
    name: str
    api_mode: str
    base_url: str
    key: str
    why: str
    offers: tuple[str, ...] = ()  # all models of its server
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


class CheckedModel(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    name: str
    api_mode: str
    base_url: str
    checkup: ModelCheckResult
    note: str  # what a new user should know of it

    def as_dict(self) -> dict[str, Any]:
        own = msgspec.structs.asdict(self)
        return own | msgspec.structs.asdict(own.pop("checkup"))


async def describe_models(home: Path) -> list[ListedModel]:
    """The models of this home, each with the models that its server offers."""
    config = load(home)
    chosen = await _choose_model(config)
    async with ModelPool() as pool:
        targets = model_targets(chosen.settings, secrets=config.secrets)
        return [await _describe_model(pool, chosen, target, n) for n, target in enumerate(targets)]


async def probe_models(home: Path, name: str | None) -> list[CheckedModel]:
    """Checks each model, or the one of that name."""
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
        role=f"fallback {index}" if index else "model",
        provider=target.provider,
        name=target.name,
        api_mode=target.api_mode,
        base_url=target.base_url,
        key=target.key_reference,
        why=_("used when the models before it fail") if index else chosen.choice.why.for_person(),
    )
    try:
        return msgspec.structs.replace(found, offers=await pool.list_models(target))
    except ModelError as error:
        return msgspec.structs.replace(found, problem=error.for_person())


async def _probe_model(pool: ModelPool, target: ModelTarget) -> CheckedModel:
    # One retry, for a stale connection: a check should show a failure, not wait until it is over.
    client = pool.lease(msgspec.structs.replace(target, retries=1))
    found = await check_model(client, now=time.monotonic)
    if target.provider is Provider.DEMO:
        found = msgspec.structs.replace(found, tools=None)  # it uses a few fixed tools only
    return CheckedModel(
        provider=target.provider,
        name=target.name,
        api_mode=target.api_mode,
        base_url=target.base_url,
        checkup=found,
        note=_note_on(target),
    )


def _note_on(target: ModelTarget) -> str:
    if target.provider is Provider.DEMO:
        return _DEMO_NOTE
    return "" if model_profile(target.name).uses_tools else _NO_TOOLS_NOTE


def _select_targets(targets: list[ModelTarget], name: str | None) -> list[ModelTarget]:
    if name is None:
        return targets
    known = [target for target in targets if target.name == name]
    return known or [msgspec.structs.replace(targets[0], name=name)]


def list_server_models(target: ModelTarget) -> ModelServer:
    """The models of the server of a target, those for conversations first, and its address: `/v1`
    is added if the server only answers there. Raises `ModelError`, which says what to do."""
    return asyncio.run(_list_server_models(target))


async def _list_server_models(target: ModelTarget) -> ModelServer:
    base_url = target.base_url.rstrip("/")
    async with ModelPool() as pool:
        try:
            names = await pool.list_models(target)
        except ModelError:
            if base_url.endswith("/v1"):
                raise
            base_url += "/v1"
            names = await pool.list_models(msgspec.structs.replace(target, base_url=base_url))
    first = chat_models(names)
    rest = tuple(name for name in names if name not in first)
    return ModelServer(base_url=base_url, models=first + rest)


_TEST_PROMPT = "Say hello in three words."


@dataclass(frozen=True, kw_only=True)
class FirstReply:
    """The answer of the model, and the seconds until its first token."""

    text: str
    first_token_seconds: float


def try_model(target: ModelTarget) -> FirstReply:
    """Raises `ModelError`, which says what to do."""
    return asyncio.run(_try_model(target))


async def _try_model(target: ModelTarget) -> FirstReply:
    request = ModelRequest(system="You are brief.", messages=(UserMessage(text=_TEST_PROMPT),))
    began, first, text = time.monotonic(), 0.0, ""
    async with ModelPool() as pool:
        client = pool.lease(target)
        async with aclosing(client.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    first = first or time.monotonic() - began
                elif isinstance(event, Completed):
                    text = event.message.text
    return FirstReply(text=text.strip(), first_token_seconds=first)

"""`holdfast setup`: chooses a model, tests it, and writes it to holdfast.toml and .env.

Nothing is written before the model has answered, unless the user confirms it.
"""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from holdfast.cli.common.config_files import print_file_diff, set_env_variable
from holdfast.cli.common.options import chosen_home, home_flag, home_option
from holdfast.config import load, prepare_home
from holdfast.config.document import read_document, read_text
from holdfast.config.environment import read_dotenv
from holdfast.config.files import mode_of, write_atomically
from holdfast.config.toml_edit import UnpatchableToml, patch_table
from holdfast.core.config.settings import KEY_VARIABLES, ModelSettings, Provider
from holdfast.core.config.versions import CONFIG_FILE, ENV_FILE
from holdfast.core.errors import HoldfastError, ModelError
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import N_, _
from holdfast.models.target import ModelTarget, make_target
from holdfast.system.lock import is_gateway_running

_PROVIDER_NAMES = ("anthropic", "openai", "openrouter", "local", "demo")


@click.command("setup")
@home_option
@click.option("--provider", type=click.Choice(_PROVIDER_NAMES), help="The provider of the model.")
@click.option("--name", help="The model.  [default: the provider's usual model]")
@click.option("--base-url", metavar="URL", help="Use this address instead of the provider's.")
@click.option(
    "--key-from-env", metavar="NAME", help="Take the key from this variable and save it in .env."
)
@click.option("--no-test", is_flag=True, help="Do not test the model.")
def command(
    provider: str | None,
    name: str | None,
    base_url: str | None,
    key_from_env: str | None,
    no_test: bool,
) -> None:
    """Choose a model, test it, and save the choice.

    Asks for what it needs; with --provider it asks nothing. The choice is written to [model] of
    holdfast.toml, where nothing else changes, and the key to .env in the home, which only you can
    read. No gateway needs to run.

    To connect a chat platform, use `holdfast platforms add`.

    \b
    Examples:
      holdfast setup
      holdfast setup --provider anthropic --key-from-env ANTHROPIC_API_KEY
      holdfast setup --provider local --base-url http://127.0.0.1:8080/v1 --name qwen3
    """
    home = chosen_home()
    read_document(home / CONFIG_FILE)  # reports a broken file before the first question
    options = ModelOptions(
        provider=provider, name=name, base_url=base_url, key_from_env=key_from_env
    )
    if provider is not None:
        choice = choose_from_options(options, test=not no_test)
        if not no_test:
            _test_choice(choice)
        install_model(home, choice, ask=False)
    elif sys.stdin.isatty():
        install_model(home, choose_until_accepted(home, options, test=not no_test), ask=True)
    else:
        raise click.UsageError(
            _("Without a terminal, no question can be asked. Give at least --provider.")
        )


@dataclass(frozen=True, kw_only=True)
class ProviderInfo:
    """A provider that setup offers."""

    provider: Provider
    title: str  # for `_`
    key_page: str = ""  # where to create a key; "": none is needed
    default_base_url: str = ""  # the usual address of a local server

    @property
    def key_variable(self) -> str:
        return KEY_VARIABLES.get(self.provider, "")


PROVIDERS = (
    ProviderInfo(
        provider=Provider.ANTHROPIC,
        title="Anthropic (Claude)",
        key_page="https://console.anthropic.com/settings/keys",
    ),
    ProviderInfo(
        provider=Provider.OPENAI,
        title="OpenAI (GPT)",
        key_page="https://platform.openai.com/api-keys",
    ),
    ProviderInfo(
        provider=Provider.OPENROUTER,
        title=N_("OpenRouter (models of many providers, one key)"),
        key_page="https://openrouter.ai/settings/keys",
    ),
    ProviderInfo(
        provider=Provider.LOCAL,
        title=N_("Your own server: Ollama, llama.cpp, LM Studio, vLLM"),
        default_base_url="http://127.0.0.1:11434/v1",
    ),
    ProviderInfo(
        provider=Provider.DEMO,
        title=N_("None yet: the demo model, which needs no key and is not an AI"),
    ),
)


def find_provider(provider: str) -> ProviderInfo:
    return next(offer for offer in PROVIDERS if offer.provider == provider)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options of the command line."""

    provider: str | None = None
    name: str | None = None
    base_url: str | None = None
    key_from_env: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelSetup:
    """The chosen model. `key` is written to `.env` as `variable`; None: it needs no key."""

    provider_info: ProviderInfo
    name: str = ""
    base_url: str = ""
    key: Secret | None = None
    variable: str = ""

    @property
    def settings(self) -> ModelSettings:
        return ModelSettings(
            provider=self.provider_info.provider,
            name=self.name,
            base_url=self.base_url,
            api_key=f"env:{self.variable}" if self.key else "",
            retries=1,  # a person waits
            first_token_timeout=30,
        )

    @property
    def target(self) -> ModelTarget:
        return make_target(self.settings, api_key=self.key)


def choose_from_options(options: ModelOptions, *, test: bool) -> ModelSetup:
    """Raises for options with which no call could succeed. `test`: a server may be asked for its
    models."""
    offer = find_provider(options.provider or "")
    variable = options.key_from_env or offer.key_variable
    key = os.environ.get(variable, "").strip() if variable else ""
    if options.key_from_env and not key:
        raise HoldfastError(
            "--key-from-env: {variable} is not set in this shell.", variable=variable
        )
    if offer.key_page and not key and not options.base_url:
        raise HoldfastError(
            "{provider} needs a key. Create one at {url}, put it into {variable}, and give "
            "--key-from-env {variable}.",
            provider=offer.title,
            url=offer.key_page,
            variable=variable,
        )
    choice = ModelSetup(
        provider_info=offer,
        name=options.name or "",
        base_url=options.base_url or offer.default_base_url,
        key=Secret(key) if key else None,
        variable=variable,
    )
    return _use_first_model(choice) if offer.default_base_url and test else choice


def _use_first_model(choice: ModelSetup) -> ModelSetup:
    """With the address that the server answers at, and its first model if none was named."""
    from holdfast.cli.models import list_server_models  # noqa: PLC0415 - it imports all of HTTP

    try:
        server = list_server_models(choice.target)
    except ModelError as error:
        if choice.name:
            return choice  # a server may have no list; the test call tells whether it answers
        raise _nothing_written(error) from None
    if not (choice.name or server.models):
        raise HoldfastError(
            "{url} has no model, so nothing was written. Load one there, then run this again.",
            url=server.base_url,
        )
    name = choice.name or server.models[0]
    return replace(choice, base_url=server.base_url, name=name)


def choose_until_accepted(home: Path, options: ModelOptions, *, test: bool) -> ModelSetup:
    """Asks again until a model answers, or the user wants to save one that does not."""
    again = False
    while True:
        choice = choose_interactively(home, options, test=test, again=again)
        again = True
        if not test:
            return choice
        try:
            _test_choice(choice)
        except HoldfastError as error:
            click.echo(click.style(error.for_person(), fg="red"))
            if click.confirm(_("Save the choice anyway?"), default=False):
                return choice
            click.echo("\n" + _("Choose again, or press Ctrl+C to stop."))
        else:
            return choice


def choose_interactively(
    home: Path, options: ModelOptions, *, test: bool, again: bool = False
) -> ModelSetup:
    """`again`: what the options name did not work, so it is only proposed."""
    click.echo(_("Which model should answer?") + "\n")
    for number, offer in enumerate(PROVIDERS, start=1):
        click.echo(f"  {number}  {_(offer.title)}")
    offer = click.prompt("\n" + _("Number"), default="1", value_proc=_parse_provider)
    if offer.default_base_url:
        return _choose_local_model(offer, options, test=test, again=again)
    base_url = options.base_url or ""
    if base_url and again:
        base_url = click.prompt(_("Address of the server"), default=base_url).strip()
    variable, key = _ask_api_key(home, offer) if offer.key_page else ("", None)
    choice = ModelSetup(provider_info=offer, base_url=base_url, key=key, variable=variable)
    usual = choice.target.name
    name = (
        options.name or click.prompt(_("Model"), default=usual)
        if offer.key_page or base_url
        else ""
    )
    return ModelSetup(provider_info=offer, name=name, base_url=base_url, key=key, variable=variable)


def _choose_local_model(
    offer: ProviderInfo, options: ModelOptions, *, test: bool, again: bool
) -> ModelSetup:
    """Asks for the address until a server answers there, shows its models, and proposes one."""
    from holdfast.cli.models import list_server_models  # noqa: PLC0415 - it imports all of HTTP

    typed, models = None if again else options.base_url, tuple[str, ...]()
    default = options.base_url or offer.default_base_url
    while True:
        base_url = typed or click.prompt(_("Address of the server"), default=default).strip()
        if "://" not in base_url:
            base_url = f"http://{base_url}"
        choice = ModelSetup(provider_info=offer, base_url=base_url)
        if not test:
            break
        try:
            server = list_server_models(choice.target)
        except ModelError as error:
            click.echo(click.style(error.for_person(), fg="red"))
            if click.confirm(_("Use this address anyway?"), default=False):
                break
            typed = None
        else:
            choice, models = replace(choice, base_url=server.base_url), server.models
            break
    name = "" if again else options.name
    return replace(choice, name=name or _ask_model(choice, models))


def _ask_model(choice: ModelSetup, models: tuple[str, ...]) -> str:
    if not models:
        return str(click.prompt(_("Model"), default=choice.target.name))
    click.echo("\n" + _("This server has these models:"))
    for number, name in enumerate(models[:_MAX_MODELS_SHOWN], start=1):
        click.echo(f"  {number}  {name}")
    if (more := len(models) - _MAX_MODELS_SHOWN) > 0:
        click.echo("  " + _("… and {n} more").format(n=more))

    def parse(text: str) -> str:
        text = text.strip()
        if text in models:
            return text
        if text.isascii() and text.isdigit() and 0 < int(text) <= len(models):
            return models[int(text) - 1]
        raise click.UsageError(
            _("{text!r} is not in the list. Type a number from 1 to {n}, or a name.").format(
                text=text, n=len(models)
            )
        )

    return str(click.prompt(_("Number or name"), default=models[0], value_proc=parse))


def _parse_provider(text: str) -> ProviderInfo:
    """By its number, or by the name that --provider has for it."""
    text = text.strip().lower()
    for number, offer in enumerate(PROVIDERS, start=1):
        if text in (str(number), offer.provider.value):
            return offer
    raise click.UsageError(
        _("{text!r} is not in the list. Type a number from 1 to {n}.").format(
            text=text, n=len(PROVIDERS)
        )
    )


def _ask_api_key(home: Path, provider_info: ProviderInfo) -> tuple[str, Secret]:
    """The variable to save the key in, and the key. The key is never shown."""
    known = os.environ.get(provider_info.key_variable) or read_dotenv(home / ENV_FILE).values.get(
        provider_info.key_variable
    )
    if known and click.confirm(
        _("{variable} already has a key. Use it?").format(variable=provider_info.key_variable),
        default=True,
    ):
        return provider_info.key_variable, Secret(known.strip())
    click.echo(
        "\n"
        + _("Create a key here and copy it: {url}").format(
            url=click.style(provider_info.key_page, underline=True)
        )
    )
    key = click.prompt(_("Paste it (it is not shown)"), hide_input=True).strip()
    variable = provider_info.key_variable
    if os.environ.get(variable, key) != key:
        # The environment takes precedence over .env, so the old key would hide the new one.
        variable = f"{variable}_HOLDFAST"
    return variable, Secret(key)


_MAX_MODELS_SHOWN = 20
LOCAL_PLATFORMS = ("api", "web")  # they require the token or a login, and need no pairing


def install_model(home: Path, choice: ModelSetup, *, ask: bool) -> None:
    target = choice.target
    prepare_home(home)
    _write_config(home, choice, ask=ask)
    config = load(home)
    if config.settings.model.provider is not choice.provider_info.provider:
        raise HoldfastError(
            "{origin} sets another provider and takes precedence over {file}. Remove it there.",
            origin=config.origins.get("model.provider", "Another source"),
            file=CONFIG_FILE,
        )
    click.echo(
        _("{model} ({provider}) is set up.").format(
            model=target.name, provider=choice.provider_info.provider
        )
    )
    if is_gateway_running(home):
        _reload_gateway(home)
    else:
        click.echo(_("Start it:  {command}").format(command=f"holdfast run{home_flag(home)}"))
    if any(name not in LOCAL_PLATFORMS for name in config.settings.platforms):
        command = "holdfast pairing approve CODE"
        click.echo(
            _("People who write to your bot get a code. Approve it:  {command}").format(
                command=command
            )
        )
    else:
        command = f"holdfast platforms add telegram{home_flag(home)}"
        click.echo(_("To connect a chat platform:  {command}").format(command=command))


def _reload_gateway(home: Path) -> None:
    # Imported here: only a running gateway needs it.
    from holdfast.cli.config.command import reload_running  # noqa: PLC0415

    reload_running(home, as_json=False)


def _test_choice(choice: ModelSetup) -> None:
    """Raises if the model does not answer."""
    if choice.provider_info.provider is Provider.DEMO:
        return
    from holdfast.cli.models import try_model  # noqa: PLC0415 - it imports all of HTTP

    click.echo(_("Asking {model} to say hello …").format(model=choice.target.name))
    try:
        reply = try_model(choice.target)
    except ModelError as error:
        raise _nothing_written(error) from None
    click.echo(
        _("It answers after {seconds:.1f} s: {text}").format(
            seconds=reply.first_token_seconds, text=reply.text[:200]
        )
    )


def _nothing_written(error: ModelError) -> HoldfastError:
    return HoldfastError("The model does not answer, so nothing was written: {error}", error=error)


def _write_config(home: Path, choice: ModelSetup, *, ask: bool) -> None:
    path = home / CONFIG_FILE
    before = read_text(path) or ""
    after = _patch_config(path, before, choice)
    changes = print_file_diff(path, before, after)
    if ask:
        click.confirm(_("Write this?"), default=True, abort=True)
    if choice.key is not None and set_env_variable(
        home / ENV_FILE, choice.variable, choice.key.reveal()
    ):
        click.echo(
            _("The key is in {file} (mode 0600), as {variable}.").format(
                file=home / ENV_FILE, variable=choice.variable
            )
        )
    if changes:
        write_atomically(path, after, mode=mode_of(path))


def _patch_config(path: Path, before: str, choice: ModelSetup) -> str:
    settings = choice.settings
    values: dict[str, str | None] = {
        "provider": settings.provider,
        "name": settings.name or None,
        "api_mode": None,  # the old provider's may not fit the new one
        "base_url": settings.base_url or None,
        "api_key": settings.api_key or None,
        "allow_unencrypted": None,  # it was meant for the old address
    }
    try:
        return patch_table(before, "model", values)
    except UnpatchableToml as error:
        lines = [f'{key} = "{value}"' for key, value in values.items() if value]
        snippet = "\n".join(["[model]", *lines])
        raise HoldfastError(
            "{file} could not be changed: {error}. Add this yourself:\n\n{snippet}",
            file=path,
            error=error,
            snippet=snippet,
        ) from None

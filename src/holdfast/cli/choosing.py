"""Choosing a model: what a person answers, or what the options say, as one choice."""

import os
from dataclasses import dataclass
from pathlib import Path

import click

from holdfast.cli.providers import PROVIDERS, ProviderInfo, find_provider
from holdfast.config.dotenv import read_dotenv
from holdfast.core.config.home_files import ENV_FILE
from holdfast.core.config.settings import ModelSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.secret import Secret
from holdfast.models.target import ModelTarget, make_target


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What was said on the command line."""

    provider: str | None = None
    name: str | None = None
    base_url: str | None = None
    key_from_env: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelSetup:
    """A model to be. `key` is kept in `.env` under `variable`; None: it needs none."""

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


def choose_from_options(options: ModelOptions) -> ModelSetup:
    """Raises for options with which no call could succeed."""
    offer = find_provider(options.provider or "")
    variable = options.key_from_env or offer.key_variable
    key = os.environ.get(variable, "").strip() if variable else ""
    if options.key_from_env and not key:
        raise HoldfastError(f"--key-from-env: {variable} is not set in this shell.")
    if offer.key_page and not key and not options.base_url:
        raise HoldfastError(
            f"{offer.title} needs a key: make one at {offer.key_page}, put it into {variable}, "
            f"and say --key-from-env {variable}."
        )
    return ModelSetup(
        provider_info=offer,
        name=options.name or "",
        base_url=options.base_url or offer.default_base_url,
        key=Secret(key) if key else None,
        variable=variable,
    )


def choose_interactively(home: Path, options: ModelOptions) -> ModelSetup:
    click.echo("Which model should answer?\n")
    for number, offer in enumerate(PROVIDERS, start=1):
        click.echo(f"  {number}  {offer.title}")
    offer = click.prompt("\nNumber", default="1", value_proc=_parse_provider)
    base_url = options.base_url or ""
    if offer.default_base_url and not base_url:
        base_url = click.prompt("Address of the server", default=offer.default_base_url)
    variable, key = _ask_api_key(home, offer) if offer.key_page else ("", None)
    choice = ModelSetup(provider_info=offer, base_url=base_url, key=key, variable=variable)
    usual = choice.target.name
    name = (
        options.name or click.prompt("Model", default=usual) if offer.key_page or base_url else ""
    )
    return ModelSetup(provider_info=offer, name=name, base_url=base_url, key=key, variable=variable)


def _parse_provider(text: str) -> ProviderInfo:
    """By its number, or by the name that --provider has for it."""
    text = text.strip().lower()
    for number, offer in enumerate(PROVIDERS, start=1):
        if text in (str(number), offer.provider.value):
            return offer
    raise click.UsageError(f"{text!r} is none of these: say a number from 1 to {len(PROVIDERS)}.")


def _ask_api_key(home: Path, provider_info: ProviderInfo) -> tuple[str, Secret]:
    """The key and the variable it is kept in. It is never shown."""
    known = os.environ.get(provider_info.key_variable) or read_dotenv(home / ENV_FILE).values.get(
        provider_info.key_variable
    )
    if known and click.confirm(
        f"{provider_info.key_variable} holds a key already; use that?", default=True
    ):
        return provider_info.key_variable, Secret(known.strip())
    click.echo(
        f"\nMake a key here and copy it: {click.style(provider_info.key_page, underline=True)}"
    )
    key = click.prompt("Paste it (it is not shown)", hide_input=True).strip()
    variable = provider_info.key_variable
    if os.environ.get(variable, key) != key:
        # The environment goes before .env, and would hide the new key behind the old.
        variable = f"{variable}_HOLDFAST"
    return variable, Secret(key)

"""Choosing a model: what a person answers, or what the options say, as one choice."""

import os
from dataclasses import dataclass
from pathlib import Path

import click

from holdfast.cli.providers import OFFERS, Offer, offer_of
from holdfast.config.dotenv import read_dotenv
from holdfast.core.config.home_files import ENV_FILE
from holdfast.core.config.settings import ModelSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.secret import Secret
from holdfast.models.target import ModelTarget, target_of


@dataclass(frozen=True, kw_only=True)
class Given:
    """What was said on the command line."""

    provider: str | None = None
    name: str | None = None
    base_url: str | None = None
    key_from_env: str | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A model to be. `key` is kept in `.env` under `variable`; None: it needs none."""

    offer: Offer
    name: str = ""
    base_url: str = ""
    key: Secret | None = None
    variable: str = ""

    @property
    def settings(self) -> ModelSettings:
        return ModelSettings(
            provider=self.offer.provider,
            name=self.name,
            base_url=self.base_url,
            api_key=f"env:{self.variable}" if self.key else "",
            retries=1,  # a person waits
            first_token_timeout=30,
        )

    @property
    def target(self) -> ModelTarget:
        return target_of(self.settings, api_key=self.key)


def from_options(given: Given) -> Choice:
    """Raises for options with which no call could succeed."""
    offer = offer_of(given.provider or "")
    variable = given.key_from_env or offer.variable
    key = os.environ.get(variable, "").strip() if variable else ""
    if given.key_from_env and not key:
        raise HoldfastError(f"--key-from-env: {variable} is not set in this shell.")
    if offer.key_page and not key and not given.base_url:
        raise HoldfastError(
            f"{offer.title} needs a key: make one at {offer.key_page}, put it into {variable}, "
            f"and say --key-from-env {variable}."
        )
    return Choice(
        offer=offer,
        name=given.name or "",
        base_url=given.base_url or offer.address,
        key=Secret(key) if key else None,
        variable=variable,
    )


def ask_person(home: Path, given: Given) -> Choice:
    click.echo("Which model should answer?\n")
    for number, offer in enumerate(OFFERS, start=1):
        click.echo(f"  {number}  {offer.title}")
    offer = click.prompt("\nNumber", default="1", value_proc=_chosen)
    base_url = given.base_url or ""
    if offer.address and not base_url:
        base_url = click.prompt("Address of the server", default=offer.address)
    variable, key = _key(home, offer) if offer.key_page else ("", None)
    choice = Choice(offer=offer, base_url=base_url, key=key, variable=variable)
    usual = choice.target.name
    name = given.name or click.prompt("Model", default=usual) if offer.key_page or base_url else ""
    return Choice(offer=offer, name=name, base_url=base_url, key=key, variable=variable)


def _chosen(said: str) -> Offer:
    """By its number, or by the name that --provider has for it."""
    said = said.strip().lower()
    for number, offer in enumerate(OFFERS, start=1):
        if said in (str(number), offer.provider.value):
            return offer
    raise click.UsageError(f"{said!r} is none of these: say a number from 1 to {len(OFFERS)}.")


def _key(home: Path, offer: Offer) -> tuple[str, Secret]:
    """The key and the variable it is kept in. It is never shown."""
    known = os.environ.get(offer.variable) or read_dotenv(home / ENV_FILE).values.get(
        offer.variable
    )
    if known and click.confirm(f"{offer.variable} holds a key already; use that?", default=True):
        return offer.variable, Secret(known.strip())
    click.echo(f"\nMake a key here and copy it: {click.style(offer.key_page, underline=True)}")
    key = click.prompt("Paste it (it is not shown)", hide_input=True).strip()
    variable = offer.variable
    if os.environ.get(variable, key) != key:
        # The environment goes before .env, and would hide the new key behind the old.
        variable = f"{variable}_HOLDFAST"
    return variable, Secret(key)

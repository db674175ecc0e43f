"""Ears: what every connection of an account listens with."""

from dataclasses import dataclass

from holdfast.platforms.discord.client import RestApi


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """The same, whoever the bot turns out to be."""

    api: RestApi
    account: str
    most: int  # bytes of one file

"""Ears: what every connection of an account listens with."""

from dataclasses import dataclass

from holdfast.platforms.discord.client import DiscordClient


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordReceiverConfig:
    """The same, whoever the bot turns out to be."""

    client: DiscordClient
    account: str
    max_file_bytes: int  # bytes of one file

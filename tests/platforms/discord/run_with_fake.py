"""The gateway as a program whose Discord is elsewhere: its library has no setting for that."""

import os

import discord
import yarl

from holdfast.cli import entry


def main() -> None:
    host = os.environ["PRETEND_DISCORD"]
    discord.http.Route.BASE = f"http://{host}/api/v10"
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"ws://{host}/gateway")
    entry.main()

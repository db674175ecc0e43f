"""Runs the gateway against the fake Discord, whose address the library has no setting for."""

import os

import discord
import yarl

from holdfast.cli import entry


def main() -> None:
    host = os.environ["PRETEND_DISCORD"]
    discord.http.Route.BASE = f"http://{host}/api/v10"
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"ws://{host}/gateway")
    entry.main()

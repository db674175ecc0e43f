"""Runs a tiny bot on the simulated chat platform: Ann may talk to it, Mallory may not.

The simulated vendor is a process of its own, as a real one would be. The gateway polls it for
messages and sends its replies there. Mallory's message is not read: she gets a pairing code, with
which the operator could let her in. Nothing leaves this machine:

    .venv/bin/python examples/bot.py "run date" "edit a file"
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from holdfast.testing.simulated.people import PeopleClient

CONFIG = """
[gateway]
port = 0

[model]
provider = "demo"

[platforms.simulated]
base_url = "{vendor}"
allow = ["ann"]
busy_mode = "queue"      # each message gets its own answer
"""
SAID = ("run date", "edit a file")


@asynccontextmanager
async def running(*program: str, home: str = "") -> AsyncIterator[str]:
    """Run a Python module as a process, and yield the first line that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *program,
        env={**os.environ, "HOLDFAST_HOME": home},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(program)} did not start")
        yield line.decode()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def converse(people: PeopleClient, texts: list[str]) -> None:
    await people.say("let me in", chat="mallory's", user="mallory")
    for text in texts:
        print(f"ann: {text}")
        await people.say(text, chat="home", user="ann")
    ledger = await people.ledger(sent=len(texts) + 1, wait=60)  # Mallory gets a code
    for sent in ledger.sent:
        print(f"bot, in {sent.outgoing.chat_id}: {sent.outgoing.text}")


def create_home(home: str, *, vendor: str) -> None:
    Path(home, "holdfast.toml").write_text(CONFIG.format(vendor=vendor))


async def run(texts: list[str], *, home: str) -> None:
    async with running("holdfast.testing.simulated") as line, aiohttp.ClientSession() as http:
        vendor = json.loads(line)["base_url"]
        create_home(home, vendor=vendor)
        async with running("holdfast.cli", "run", home=home):
            await converse(PeopleClient(vendor, http=http), texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "text", nargs="*", default=SAID, help="messages from Ann, one after another"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        asyncio.run(run(list(options.text), home=home))


if __name__ == "__main__":
    main()

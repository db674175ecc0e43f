"""`holdfast platforms` on real gateways: an account with refused credentials, a pause over a
restart, and two gateways with the same token."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Cli, CliGateway

from holdfast.system import exit_codes
from holdfast.testing.simulated.events import Faults, SayRequest
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService

HOME = """
[model]
provider = "demo"
[runner]
sandbox = "off"
[platforms.simulated]
base_url = "{vendor}"
token = "env:BOT"
allow = ["ann"]
"""
SECOND = """
[platforms.simulated.accounts.work]
base_url = "{vendor}"
token = "env:OTHER_BOT"
"""
ENV = "BOT=one-token-or-so\nOTHER_BOT=another-token\n"


class CliUser:
    """Runs commands for one home, in threads: the chat service runs in the loop of the test."""

    def __init__(self, folder: Path, cli: Cli) -> None:
        folder.mkdir()
        # The state that all gateways of a user share is in one folder, as on a machine.
        self.gateway = CliGateway(folder, XDG_STATE_HOME=str(folder.parent / "state"))
        self._cli = cli

    async def start(self, toml: str = "") -> None:
        if toml:
            self.gateway.configure(toml)
            (self.gateway.home / ".env").write_text(ENV)
            (self.gateway.home / ".env").chmod(0o600)
        await asyncio.to_thread(self.gateway.start)

    async def platforms(self, *args: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(self._cli, "platforms", *args, **self.gateway.environ)

    async def accounts(self) -> dict[str, dict[str, Any]]:
        listed = json.loads((await self.platforms("list", "--json")).stdout)
        return {f"{each['name']}:{each['account']}": each for each in listed}

    async def until(self, account: str, state: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while (found := (await self.accounts())[account])["state"] != state:
                await asyncio.sleep(0.05)
        return found


@pytest.fixture
async def new_user(tmp_path: Path, cli: Cli) -> AsyncIterator[Callable[[str], CliUser]]:
    made: list[CliUser] = []

    def make(name: str) -> CliUser:
        made.append(CliUser(tmp_path / name, cli))
        return made[-1]

    yield make
    for shell in made:
        await asyncio.to_thread(shell.gateway.stop)


async def test_accounts_are_listed_checked_paused_over_a_restart_and_resumed(
    new_user: Callable[[str], CliUser],
) -> None:
    """C8, G1: nothing that was said to a paused account is lost."""
    service, shell = ChatService(), new_user("one")
    refusing = ChatService()
    refusing.set_faults(Faults(connect_refused="the token is revoked"))
    async with serve(service) as vendor, serve(refusing) as closed:
        await shell.start(HOME.format(vendor=vendor) + SECOND.format(vendor=closed))
        await shell.until("simulated:work", "blocked")
        assert (await shell.until("simulated:default", "connected"))["connected"]
        listed = await shell.platforms("list")
        assert "simulated:work     until_acked  blocked: credentials refused\n" in listed.stdout
        assert "\nsimulated:work: the token is revoked\n" in listed.stdout
        assert "Ask the operator of the service" in listed.stderr
        assert "one-token" not in listed.stdout
        checked = await shell.platforms("check")
        assert checked.returncode == exit_codes.FAILED
        assert checked.stderr.count("holdfast config reload") == 1
        good = await shell.platforms("check", "simulated")
        assert good.returncode == 0 and "connected, last contact" in good.stdout
        assert "reload" not in good.stderr
        again = await shell.platforms("resume", "simulated:work")
        assert again.returncode == exit_codes.FAILED and "holdfast config reload" in again.stderr

        paused = await shell.platforms("pause", "simulated")
        assert paused.stdout.startswith("simulated:default is paused"), paused.stderr
        service.say(SayRequest(chat="c", user="ann", text="who is there?"))
        await asyncio.to_thread(shell.gateway.kill)
        down = await shell.platforms("list")
        assert "No gateway is running" in down.stderr and "simulated:work" in down.stdout
        assert (await shell.platforms("pause", "simulated")).returncode == exit_codes.GATEWAY_DOWN
        await shell.start()
        await shell.until("simulated:default", "paused")
        assert list(service.sent) == []
        resumed = await shell.platforms("resume", "simulated", "--json")
        assert resumed.returncode == 0 and json.loads(resumed.stdout)["connected"]
        ledger = await service.wait_for_ledger(sent=1, wait=60)
        assert [sent.text[:12] for sent in ledger.sent] == ["I am the dem"]
        unknown = await shell.platforms("pause", "pigeon")
        assert (
            unknown.returncode == exit_codes.FAILED
            and "No enabled account is named pigeon:default" in unknown.stderr
        )
        assert "Did you mean" not in unknown.stderr
        await asyncio.to_thread(shell.gateway.stop)


async def test_of_two_gateways_with_one_token_the_second_names_the_first(
    new_user: Callable[[str], CliUser],
) -> None:
    """And takes it once the first is gone, however that went."""
    service, first, second = ChatService(), new_user("first"), new_user("second")
    async with serve(service) as vendor:
        await first.start(HOME.format(vendor=vendor))
        await first.until("simulated:default", "connected")
        await second.start(HOME.format(vendor=vendor))
        held = await second.until("simulated:default", "retrying")
        assert f"(the gateway of {first.gateway.home}, process" in held["error"]
        assert held["next_attempt_at"] and held["remedy"]
        await asyncio.to_thread(first.gateway.kill)
        resumed = await second.platforms("resume", "simulated")
        assert resumed.returncode == 0, resumed.stdout
        names = [path.name for path in (first.gateway.home.parents[1] / "state").rglob("*")]
        assert not any("token" in name for name in names)
        await asyncio.to_thread(second.gateway.stop)

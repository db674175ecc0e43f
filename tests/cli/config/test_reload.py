"""Reloading the configuration of a running gateway: by file watch, command or signal."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.command_line import Cli, CliGateway

from holdfast.server.local.control_client import read_status
from holdfast.system import exit_codes
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

_TIMEOUT = 60.0  # seconds; long, since a machine may be slow


def wait_for_configuration(
    home: Path, condition: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Wait until the configuration in the status fulfils a condition, and return it."""
    until = time.monotonic() + _TIMEOUT
    while True:
        found: dict[str, Any] = read_status(Paths(home), timeout=30)["snapshot"]["configuration"]
        if condition(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(0.05)


def write_in_place(file: Path, text: str) -> None:
    """Overwrite the file in one write, so that no reader sees half of it."""
    with file.open("r+b", buffering=0) as opened:
        opened.write(text.encode().ljust(file.stat().st_size, b"\n"))


def test_a_running_gateway_applies_a_change_of_the_file(cli: Cli, gateway: CliGateway) -> None:
    """Law 15: replaced as editors do it, written in place, asked for by command and by signal."""
    file = gateway.home / "holdfast.toml"
    begun = file.read_text()
    wait_for_configuration(gateway.home, lambda now: now["number"] == 1)
    beside = gateway.home / "holdfast.toml.new"
    beside.write_text(f"{begun}[agent]\nmax_steps = 7\n")
    beside.replace(file)
    wait_for_configuration(gateway.home, lambda now: now["number"] == 2)

    write_in_place(file, "[agent]\nmax_steps = 0\n")
    assert (
        "line 2: agent.max_steps"
        in wait_for_configuration(gateway.home, lambda now: now["problem"])["problem"]
    )
    refused = cli("config", "reload")
    assert refused.returncode == exit_codes.CONFIG_EXIT
    assert "line 2: agent.max_steps" in refused.stderr
    assert "the last good configuration stays active" in refused.stderr
    assert "The configuration file is invalid: the last valid configuration" in cli("status").stdout

    write_in_place(file, f"{begun}[gateway]\nwatch = false\n[backup]\nkeep = 3\n")
    done = cli("config", "reload")  # the watch may be first, and then nothing is new
    assert done.returncode == 0, done.stderr
    assert "onfiguration 3 " in done.stdout
    assert "Restart required for: backup.keep" in done.stdout
    assert wait_for_configuration(gateway.home, lambda now: now["number"] == 3)["problem"] == ""

    file.write_text(f"{begun}[agent]\nmax_steps = 9\n")  # the file watch is off now
    holder = read_holder(gateway.home)
    assert holder is not None
    os.kill(holder.pid, signal.SIGHUP)
    assert (
        wait_for_configuration(gateway.home, lambda now: now["number"] == 4)["pending_restart"]
        == []
    )


def test_a_reload_without_a_gateway_is_refused(cli: Cli, tmp_path: Path) -> None:
    """Errors of the file are reported anyway."""
    refused_run = cli("config", "reload")
    assert refused_run.returncode == exit_codes.GATEWAY_DOWN
    assert "No gateway is running" in refused_run.stderr
    home = tmp_path / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "holdfast.toml").write_text("[agent]\nmax_steps = 0\n")
    assert cli("config", "reload").returncode == exit_codes.CONFIG_EXIT

"""The successor, looked at before a restart: could it start? If not, nothing is restarted."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.core.errors import RestartRefused
from holdfast.system.sockets import LISTEN_VARIABLES

CHECK_TIMEOUT = 30.0
# What belongs to this process alone: its descriptors and its place with its supervisor.
_OWN_VARIABLES = frozenset({*LISTEN_VARIABLES, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
_MAX_ERROR_CHARS = 2000


def module_command() -> list[str]:
    """How this program is called again, by the interpreter that runs it now."""
    return [sys.executable, "-m", "holdfast.cli"]


def successor_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that a successor gets: ours, without what was meant for us alone."""
    return {name: value for name, value in environ.items() if name not in _OWN_VARIABLES}


async def check_successor(
    home: Path,
    *,
    environ: Mapping[str, str],
    schema: int = 0,
    options: Sequence[str] = (),
    command: Sequence[str] = (),
    timeout: float = CHECK_TIMEOUT,
) -> None:
    """Have the code and the configuration that are on disk now say whether they would start.

    Raises `RestartRefused` with the reason, the place and the remedy. It is asked in a process
    of its own, which holds no lock and opens no store: what is running is not touched. `schema`
    is the version of the store's tables, which the successor must know; `options` are those that
    `run` would get.
    """
    asked = [*(command or module_command()), "gateway", "check", "--json", "--home", str(home)]
    process = await asyncio.create_subprocess_exec(
        *asked,
        "--schema",
        str(schema),
        *options,
        env=successor_environ(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout):
            said, errors = await process.communicate()
    except TimeoutError:
        raise RestartRefused(
            f"the successor could not say within {timeout:g} s whether it would start. The "
            "running gateway goes on. `holdfast gateway check` asks it again."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RestartRefused(_failure_reason(said, errors))


def _failure_reason(output: bytes, errors: bytes) -> str:
    """What it says itself; where it cannot even say that, what Python says."""
    try:
        reason = str(json.loads(output)["error"])
    except (ValueError, KeyError, TypeError):
        words = errors.decode("utf-8", "replace").strip()[-_MAX_ERROR_CHARS:]
        reason = words or "it ended without a word"
    return f"the successor would not start: {reason}\nThe running gateway goes on."

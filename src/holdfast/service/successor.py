"""The successor, looked at before a restart: could it start? If not, nothing is restarted."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.core.errors import RestartRefused
from holdfast.system.sockets import VARIABLES

CHECKED_WITHIN = 30.0
# What belongs to this process alone: its descriptors and its place with its supervisor.
_OURS = frozenset({*VARIABLES, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
_LAST_WORDS = 2000


def program() -> list[str]:
    """How this program is called again, by the interpreter that runs it now."""
    return [sys.executable, "-m", "holdfast.cli"]


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that a successor gets: ours, without what was meant for us alone."""
    return {name: value for name, value in environ.items() if name not in _OURS}


async def check(
    home: Path,
    *,
    environ: Mapping[str, str],
    schema: int = 0,
    options: Sequence[str] = (),
    command: Sequence[str] = (),
    within: float = CHECKED_WITHIN,
) -> None:
    """Have the code and the configuration that are on disk now say whether they would start.

    Raises `RestartRefused` with the reason, the place and the remedy. It is asked in a process
    of its own, which holds no lock and opens no store: what is running is not touched. `schema`
    is the version of the store's tables, which the successor must know; `options` are those that
    `run` would get.
    """
    asked = [*(command or program()), "gateway", "check", "--json", "--home", str(home)]
    process = await asyncio.create_subprocess_exec(
        *asked,
        "--schema",
        str(schema),
        *options,
        env=inherited(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within):
            said, errors = await process.communicate()
    except TimeoutError:
        raise RestartRefused(
            f"the successor could not say within {within:g} s whether it would start. The "
            "running gateway goes on. `holdfast gateway check` asks it again."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RestartRefused(_why(said, errors))


def _why(said: bytes, errors: bytes) -> str:
    """What it says itself; where it cannot even say that, what Python says."""
    try:
        reason = str(json.loads(said)["error"])
    except (ValueError, KeyError, TypeError):
        words = errors.decode("utf-8", "replace").strip()[-_LAST_WORDS:]
        reason = words or "it ended without a word"
    return f"the successor would not start: {reason}\nThe running gateway goes on."

"""Backing up beside the gateway: by a program of its own, which takes what nobody else wants."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.system.program import holdfast_command

# What a program needs to find itself and its files; nothing that may be a secret.
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONHOME")


class BackupCommand:
    """Makes a backup by `holdfast backup create`, at the lowest priority.

    In this process packing would take turns with the event loop, and would leave its memory here.
    """

    def __init__(self, home: Path, *, folder: Path, keep: int, environ: Mapping[str, str]) -> None:
        self._arguments = (
            *holdfast_command(),
            *("backup", "create", "--home", str(home), "--to", f"{folder}/"),
            *("--keep", str(keep), "--gently", "--json"),
        )
        self._environ = {name: environ[name] for name in _INHERITED_VARIABLES if name in environ}

    async def make(self) -> dict[str, Any]:
        """What it tells of the new backup; raises `HoldfastError` with why there is none.

        Cancelled, it is ended, and leaves nothing that the next one does not clear away.
        """
        program = await asyncio.create_subprocess_exec(
            *self._arguments,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await program.communicate()
        except BaseException:
            program.kill()
            await program.wait()
            raise
        if program.returncode:
            raise HoldfastError(err.decode("utf-8", "replace").strip().removeprefix("error: "))
        told = json.loads(out)
        assert isinstance(told, dict), "this is what it prints"
        return told

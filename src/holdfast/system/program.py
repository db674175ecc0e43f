"""This program: how a supervisor starts the very one that runs here."""

import os
import stat
import sys
from pathlib import Path

from holdfast.core.errors import HoldfastError


def holdfast_command() -> tuple[str, ...]:
    """The `holdfast` beside the interpreter that runs, else that interpreter with our package."""
    beside = Path(sys.executable).with_name("holdfast")
    if os.access(beside, os.X_OK):
        return (str(beside),)
    if not sys.executable:
        raise HoldfastError(
            "this interpreter does not know where it is; call holdfast by its full path"
        )
    return (sys.executable, "-m", "holdfast.cli")


def is_setuid(program: str | None) -> bool:
    """Whether a program takes its owner's rights, which `NoNewPrivileges` would keep from it."""
    return program is not None and bool(os.stat(program).st_mode & stat.S_ISUID)

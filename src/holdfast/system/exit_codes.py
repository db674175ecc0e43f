"""Exit codes of the process, and what launchd gets instead of some of them.

Imports the standard library only: every start and the respawner need it.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

OK = 0
FAILED = 1
USAGE = 2  # click's own
GATEWAY_DOWN = 3  # a command that needs a running gateway found none
HOME_IN_USE = 4  # another process holds the home

GATEWAY_SERVICE_RESTART_EXIT_CODE = 75  # launchd and s6 take it as "start me again"
CONFIG_EXIT = 78  # no supervisor restarts this: the configuration must be fixed first


def exit_now(code: int) -> NoReturn:
    """End this process at once, after everything was closed.

    The shutdown of the interpreter would take ten times as long as the stop, and compete with the
    starting successor; the kernel frees everything at once.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader has ended
            stream.flush()
    os._exit(code)


def launchd_exit_code(code: int, environ: Mapping[str, str]) -> int:
    """The exit code under launchd.

    launchd restarts a job forever unless it exits with 0. An invalid configuration stays invalid
    until a person fixes it, so the process exits with 0 after it has reported the problem;
    `holdfast gateway start` tries again.
    """
    name = environ.get("XPC_SERVICE_NAME", "")
    under_launchd = bool(name) and name == environ.get("HOLDFAST_UNIT")
    return OK if under_launchd and code == CONFIG_EXIT else code

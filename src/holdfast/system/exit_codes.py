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
CONFIG_EXIT = 78  # no supervisor restarts this: a person has to mend the configuration


def exit_now(code: int) -> NoReturn:
    """End this process now, when all that was open has been closed.

    To take the interpreter apart object by object would take ten times as long as the stop did,
    beside a successor that starts meanwhile; the kernel does it at once.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it has gone
            stream.flush()
    os._exit(code)


def launchd_exit_code(code: int, environ: Mapping[str, str]) -> int:
    """What the process ends with, where launchd keeps it.

    launchd starts again whatever ends with anything but 0, for ever. A configuration that is
    wrong stays so until a person mends it, so the process ends with 0 after it has said what is
    wrong; `holdfast gateway start` tries again.
    """
    name = environ.get("XPC_SERVICE_NAME", "")
    kept_by_launchd = bool(name) and name == environ.get("HOLDFAST_UNIT")
    return OK if kept_by_launchd and code == CONFIG_EXIT else code

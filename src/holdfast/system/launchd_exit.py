"""The exit code that launchd is told: it knows none that it should leave alone."""

from collections.abc import Mapping

from holdfast.system import exits


def launchd_exit_code(code: int, environ: Mapping[str, str]) -> int:
    """What the process ends with, where launchd keeps it.

    launchd starts again whatever ends with anything but 0, for ever. A configuration that is
    wrong stays so until a person mends it, so the process ends with 0 after it has said what is
    wrong; `holdfast gateway start` tries again.
    """
    name = environ.get("XPC_SERVICE_NAME", "")
    kept_by_launchd = bool(name) and name == environ.get("HOLDFAST_UNIT")
    return exits.OK if kept_by_launchd and code == exits.CONFIG_EXIT else code

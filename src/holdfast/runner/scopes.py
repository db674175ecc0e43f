"""Scopes: systemd is asked to take each runner out of the unit whose end would be its own."""

import hashlib
import logging
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.core.ids import SessionId
from holdfast.core.ports.protocols import Clock

log = logging.getLogger(__name__)

SCOPE_NAME = "holdfast-runner"
RETRY_AFTER = 600.0  # seconds; one that is slow to fail must not slow every command down

# What systemd-run needs to find its systemd, and nobody else is to have.
_BUS_VARIABLES = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_]+")
_CONSEQUENCE = (
    "it runs inside the gateway's own unit: a restart or a crash of that ends it with all that"
    " runs in it, and what it did is told to the agent as unknown"
)


class SystemdScopes:
    """Owns how systemd is asked, and when it last failed to do it."""

    def __init__(self, home: Path, prefix: Sequence[str], *, clock: Clock) -> None:
        """`front` is the command line of `systemd-run` up to the name of the scope, with what
        stands before it; []: there is none, which is told with the first runner."""
        self._home_digest = hashlib.sha256(str(home).encode()).hexdigest()[:8]
        self._prefix, self._clock = prefix, clock
        self._failed_at: float | None = None

    def wrapper(self, session_id: SessionId) -> list[str]:
        """What stands in front of a runner's command line; []: it is not worth asking now."""
        failed = self._failed_at
        if failed is not None and self._clock.monotonic() - failed < RETRY_AFTER:
            return []
        if not self._prefix:
            self.report_failure("systemd-run is not installed")
            return []
        name = _UNSAFE_CHARACTERS.sub("_", session_id)[-60:]
        # A scope's name is taken while anything is left in it, so each runner has its own.
        moment = f"{self._clock.now() * 1000:.0f}"
        unit = f"--unit={SCOPE_NAME}-{self._home_digest}-{name}-{moment}"
        forgotten = [word for name in _BUS_VARIABLES for word in ("-u", name)]
        return [*self._prefix, unit, "--", "/usr/bin/env", *forgotten]

    def report_failure(self, why: str) -> None:
        """A runner had to start without a scope: say what that costs."""
        self._failed_at = self._clock.monotonic()
        log.warning(
            "A runner has no scope of its own (%s), so %s.",
            " ".join(why.split()),
            _CONSEQUENCE,
            extra={"action": "runner_without_scope"},
        )


def systemd_run_prefix(environ: Mapping[str, str], *, user_unit: bool, uid: int) -> list[str]:
    """How systemd is asked by a gateway that one of its units started; []: it cannot be.

    Root asks the machine's. Anybody else asks their own, also out of a unit of the machine's:
    that works where they have one without being logged in (`loginctl enable-linger`).
    """
    program = shutil.which("systemd-run", path=environ.get("PATH", ""))
    if program is None:
        return []
    told = {name: environ[name] for name in _BUS_VARIABLES if name in environ}
    whose = "--user" if user_unit or uid else "--system"
    if whose == "--user":
        told.setdefault("XDG_RUNTIME_DIR", f"/run/user/{uid}")
    variables = [f"{name}={value}" for name, value in told.items()]
    return ["/usr/bin/env", *variables, program, whose, "--scope", "--collect", "--quiet"]

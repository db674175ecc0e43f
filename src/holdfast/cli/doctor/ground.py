"""The ground: the home with its permissions, its lock, its leftovers, and the disk it is on."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from holdfast.cli.doctor.finding import Finding, Level, Patient, fine
from holdfast.server.local.client import GatewayDown, read_status
from holdfast.system.lock import HomeInUse, HomeLock, read_holder

_SCARCE, _ALMOST_FULL = 1_000_000_000, 100_000_000


class Home:
    name = "home"

    def look(self, patient: Patient) -> Iterable[Finding]:
        home = patient.home
        if not os.access(home, os.W_OK | os.X_OK):
            yield Finding(
                level=Level.PROBLEM,
                what=f"{home} cannot be written by this user.",
                why="Everything that must survive is kept there.",
                remedy="Run this as the user who runs the gateway, or name another --home.",
            )
            return
        yield fine(f"{home} is there.")


class Permissions:
    """Files that hold secrets or conversations are for their owner alone."""

    name = "permissions"

    def look(self, patient: Patient) -> Iterable[Finding]:
        open_to_others = [path for path in self._private(patient) if _mode(path) & 0o077]
        for path in open_to_others:
            yield Finding(
                level=Level.PROBLEM,
                what=f"{path} may be read by other users (mode {_mode(path):04o}).",
                why="It holds keys or conversations.",
                remedy=f"chmod {'700' if path.is_dir() else '600'} {path}",
                mend=partial(_close, path),
            )
        if not open_to_others:
            yield fine("What is private is for its owner alone.")

    def _private(self, patient: Patient) -> Iterator[Path]:
        paths = patient.paths
        yield patient.home
        single = (paths.env_file, paths.secrets, paths.run, paths.workspaces, paths.logs)
        databases = (*patient.home.glob("state.db*"), *patient.home.glob("search.db*"))
        backups = (patient.home / "backups", *patient.home.glob("backups/holdfast-*"))
        several = (*paths.secrets.glob("*"), *databases, *backups)
        for path in (*single, *several, patient.home / "runs"):
            if path.exists() and not path.is_socket():
                yield path


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _close(path: Path) -> str:
    path.chmod(0o700 if path.is_dir() else 0o600)
    return f"{path} is for its owner alone now."


class Lock:
    name = "lock"

    def look(self, patient: Patient) -> Iterable[Finding]:
        holder = read_holder(patient.home)
        if holder is None:
            yield fine("No gateway is running.")
            return
        who = f"process {holder.pid} ({holder.purpose})"
        try:
            state = read_status(patient.paths)["state"]
        except GatewayDown:
            state = "silent"
        if holder.purpose == "gateway" and state in ("hanging", "silent"):
            yield Finding(
                level=Level.PROBLEM,
                what=f"The gateway, {who}, holds the home and is {state}.",
                why="No message is answered, and no other gateway can start.",
                remedy=f"`holdfast logs` may say why; `kill {holder.pid}` ends it, and nothing "
                "that was accepted is lost.",
            )
        else:
            yield fine(f"The home is held by {who}, which is {state}.")


class Leftovers:
    """What a killed process may leave. None of it keeps a start, and all of it confuses."""

    name = "leftovers"

    def look(self, patient: Patient) -> Iterable[Finding]:
        if patient.running:
            yield fine("Sockets are in use.")
            return
        paths = patient.paths
        sockets = [paths.status_socket, paths.control_socket, paths.lock]
        drafts = [*patient.home.glob(".*.toml.*"), *patient.home.glob("*.new")]
        stale = [path for path in (*sockets, *drafts) if path.exists() or path.is_socket()]
        for path in stale:
            yield Finding(
                level=Level.WARNING,
                what=f"{path} was left by a process that is gone.",
                why="It keeps nothing from working; it only looks as if something ran.",
                remedy=f"rm {path}",
                mend=partial(_remove, patient.home, path),
            )
        if not stale:
            yield fine("Nothing was left behind.")


def _remove(home: Path, path: Path) -> str:
    """Under the lock: a gateway that has started since has made it anew."""
    try:
        with HomeLock(home, purpose="holdfast doctor"):
            path.unlink(missing_ok=True)
    except HomeInUse:
        return f"{path} is in use again and was left."
    return f"{path} is removed."


class Disk:
    name = "disk"

    def look(self, patient: Patient) -> Iterable[Finding]:
        free = shutil.disk_usage(patient.home).free
        told = f"{free / 1e9:.1f} GB are free where {patient.home} is."
        if free >= _SCARCE:
            yield fine(told)
            return
        yield Finding(
            level=Level.PROBLEM if free < _ALMOST_FULL else Level.WARNING,
            what=told,
            why="On a full disk messages are refused until there is room.",
            remedy="Free some space; `[retention]` in holdfast.toml says how long what is over is "
            "kept.",
        )

"""The ground: the home with its permissions, its lock, its leftovers, and the disk it is on."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding, ok_finding
from holdfast.server.local.client import GatewayDown, read_status
from holdfast.system.lock import HomeInUse, HomeLock, read_holder

_LOW_DISK_BYTES, _FULL_DISK_BYTES = 1_000_000_000, 100_000_000


class HomeCheck:
    name = "home"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        home = examined.home
        if not os.access(home, os.W_OK | os.X_OK):
            yield HealthFinding(
                level=FindingLevel.PROBLEM,
                what=f"{home} cannot be written by this user.",
                why="Everything that must survive is kept there.",
                remedy="Run this as the user who runs the gateway, or name another --home.",
            )
            return
        yield ok_finding(f"{home} is there.")


class PermissionsCheck:
    """Files that hold secrets or conversations are for their owner alone."""

    name = "permissions"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        open_to_others = [path for path in self._private_paths(examined) if _mode(path) & 0o077]
        for path in open_to_others:
            yield HealthFinding(
                level=FindingLevel.PROBLEM,
                what=f"{path} may be read by other users (mode {_mode(path):04o}).",
                why="It holds keys or conversations.",
                remedy=f"chmod {'700' if path.is_dir() else '600'} {path}",
                fix=partial(_restrict_mode, path),
            )
        if not open_to_others:
            yield ok_finding("What is private is for its owner alone.")

    def _private_paths(self, examined: ExaminedHome) -> Iterator[Path]:
        paths = examined.paths
        yield examined.home
        single = (paths.env_file, paths.secrets, paths.run, paths.workspaces, paths.logs)
        databases = (*examined.home.glob("state.db*"), *examined.home.glob("search.db*"))
        backups = (examined.home / "backups", *examined.home.glob("backups/holdfast-*"))
        several = (*paths.secrets.glob("*"), *databases, *backups)
        for path in (*single, *several, examined.home / "runs"):
            if path.exists() and not path.is_socket():
                yield path


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _restrict_mode(path: Path) -> str:
    path.chmod(0o700 if path.is_dir() else 0o600)
    return f"{path} is for its owner alone now."


class LockCheck:
    name = "lock"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        holder = read_holder(examined.home)
        if holder is None:
            yield ok_finding("No gateway is running.")
            return
        who = f"process {holder.pid} ({holder.purpose})"
        try:
            state = read_status(examined.paths)["state"]
        except GatewayDown:
            state = "silent"
        if holder.purpose == "gateway" and state in ("hanging", "silent"):
            yield HealthFinding(
                level=FindingLevel.PROBLEM,
                what=f"The gateway, {who}, holds the home and is {state}.",
                why="No message is answered, and no other gateway can start.",
                remedy=f"`holdfast logs` may say why; `kill {holder.pid}` ends it, and nothing "
                "that was accepted is lost.",
            )
        else:
            yield ok_finding(f"The home is held by {who}, which is {state}.")


class LeftoversCheck:
    """What a killed process may leave. None of it keeps a start, and all of it confuses."""

    name = "leftovers"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        if examined.running:
            yield ok_finding("Sockets are in use.")
            return
        paths = examined.paths
        sockets = [paths.status_socket, paths.control_socket, paths.lock]
        drafts = [*examined.home.glob(".*.toml.*"), *examined.home.glob("*.new")]
        stale = [path for path in (*sockets, *drafts) if path.exists() or path.is_socket()]
        for path in stale:
            yield HealthFinding(
                level=FindingLevel.WARNING,
                what=f"{path} was left by a process that is gone.",
                why="It keeps nothing from working; it only looks as if something ran.",
                remedy=f"rm {path}",
                fix=partial(_remove_leftover, examined.home, path),
            )
        if not stale:
            yield ok_finding("Nothing was left behind.")


def _remove_leftover(home: Path, path: Path) -> str:
    """Under the lock: a gateway that has started since has made it anew."""
    try:
        with HomeLock(home, purpose="holdfast doctor"):
            path.unlink(missing_ok=True)
    except HomeInUse:
        return f"{path} is in use again and was left."
    return f"{path} is removed."


class DiskCheck:
    name = "disk"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        free = shutil.disk_usage(examined.home).free
        told = f"{free / 1e9:.1f} GB are free where {examined.home} is."
        if free >= _LOW_DISK_BYTES:
            yield ok_finding(told)
            return
        yield HealthFinding(
            level=FindingLevel.PROBLEM if free < _FULL_DISK_BYTES else FindingLevel.WARNING,
            what=told,
            why="On a full disk messages are refused until there is room.",
            remedy="Free some space; `[retention]` in holdfast.toml says how long what is over is "
            "kept.",
        )

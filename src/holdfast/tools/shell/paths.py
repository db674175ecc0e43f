"""Places: where a path leads, as far as that can be known from its text."""

import posixpath
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from holdfast.tools.shell.markers import MARKS

# Where relative paths begin: a session's shell stands somewhere in its workspace. It is no path
# of any machine, and deep enough that a few `..` lead out of it without reaching the root.
HERE = "/holdfast/of/some/session/workspace"


class Ground(StrEnum):
    ROOT = "root"
    HOME = "home"  # a person's whole home
    SYSTEM_TREE = "system tree"  # /etc, /usr … as a whole
    SYSTEM = "system"  # something in them
    DEVICE = "device"
    WORKSPACE = "workspace"  # all of it
    INSIDE = "inside"  # something in the workspace
    TEMP_TREE = "temp tree"
    TEMP = "temp"
    CACHE = "cache"  # in a home, but made to be thrown away
    OUTSIDE = "outside"
    UNKNOWN = "unknown"


# fmt: off
_TOPS = frozenset((
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root",
    "sbin", "sys", "usr", "var", "System", "Library", "Applications", "Users", "nix",
))
_TREES = frozenset((
    "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/share", "/usr/local", "/var/lib",
))
_SYSTEM = _TOPS - {"home", "root", "Users"} | {"opt"}
_TEMPS = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp")
_MILD_DEVICES = frozenset((
    "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd",
    "pts", "ptmx", "tcp", "udp", "shm", "console", "ttyS0",
))
_CACHES = (".cache/", ".npm/_cacache", ".gradle/caches", ".cargo/registry", ".local/share/Trash/")
# fmt: on
_NAMELESS = frozenset("*?.[]!^-")
_GLOB = frozenset("*?[")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command stands."""

    cwd: str = HERE
    home: str = "/home/agent"
    workspaces: tuple[str, ...] = ("/workspace",)

    def resolve(self, path: str) -> str:
        """The path from the root, with `.` and `..` taken away. A `..` out of the workspace
        into what is called as a system folder is one that leads there."""
        if path.startswith("/"):
            return _normal(path)
        if path[:1] and path[0] in MARKS:
            return path
        if self.cwd.startswith(HERE) and path.startswith("../"):
            rest = path.replace("../", "")
            up = _normal(posixpath.join(self.cwd, path))
            inside = up.startswith(HERE + "/")
            return f"/{rest}" if not inside and rest.split("/")[0] in _TOPS else up
        return _normal(posixpath.join(self.cwd, path))

    def ground(self, path: str) -> Ground:
        full = _whole(self.resolve(path))
        if full[0] in MARKS:
            return _ground_of_unknown(full)
        if full == "/":
            return Ground.ROOT
        for workspace in (HERE, *self.workspaces):
            if full == workspace:
                return Ground.WORKSPACE
            if full.startswith(workspace + "/"):
                return Ground.INSIDE
        return self._ground_outside(full)

    def _ground_outside(self, full: str) -> Ground:
        for temp in _TEMPS:
            if full == temp:
                return Ground.TEMP_TREE
            if full.startswith(temp + "/"):
                return Ground.TEMP
        if full.startswith("/dev/"):
            mild = full.split("/")[2] in _MILD_DEVICES
            return Ground.OUTSIDE if mild else Ground.DEVICE
        parts = full.split("/")[1:]
        if self._is_home(full, parts):
            return Ground.HOME
        if full.startswith(self.home + "/"):
            below = full[len(self.home) + 1 :] + "/"
            return Ground.CACHE if below.startswith(_CACHES) else Ground.OUTSIDE
        return _ground_of_system(full, parts)

    def _is_home(self, full: str, parts: list[str]) -> bool:
        if full in (self.home, "/root", "/home", "/Users"):
            return True
        return len(parts) == 2 and parts[0] in ("home", "Users")

    def is_mild_device(self, path: str) -> bool:
        full = self.resolve(path)
        return full.startswith("/dev/") and full.split("/")[2] in _MILD_DEVICES


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path


def _whole(path: str) -> str:
    """The folder that is meant as a whole: `/etc/*`, `/etc/.[!.]*` and `/etc` alike."""
    while True:
        folder, _, last = path.rpartition("/")
        if not folder and not last:
            return "/"
        if last and not set(last) <= _NAMELESS:
            return path
        if path[0] != "/" and not folder:
            return path
        path = folder or "/"
        if path == "/":
            return path


def _ground_of_unknown(full: str) -> Ground:
    """What follows an unknown folder names something; alone, or as if that folder were empty
    and the root were meant, it may be anything."""
    _, slash, rest = full.partition("/")
    first = rest.split("/")[0]
    if not slash or not first or first in _TOPS or set(first) <= _NAMELESS | set(MARKS):
        return Ground.UNKNOWN
    return Ground.INSIDE


def _ground_of_system(full: str, parts: list[str]) -> Ground:
    if full in _TREES:
        return Ground.SYSTEM_TREE
    top = parts[0]
    if len(parts) == 1:
        globbed = not _GLOB.isdisjoint(top)
        if top in _TOPS or (globbed and any(fnmatchcase(name, top) for name in _TOPS)):
            return Ground.SYSTEM_TREE
    return Ground.SYSTEM if top in _SYSTEM else Ground.OUTSIDE

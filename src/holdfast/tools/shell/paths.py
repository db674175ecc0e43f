"""Resolves a path from its text, and classifies where it leads: workspace, home, system, device,
temporary."""

import posixpath
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from holdfast.tools.shell.markers import MARKERS

# Where relative paths begin: a session's shell is somewhere in its workspace. It is no path
# of any machine, and deep enough that a few `..` lead out of it without reaching the root.
SESSION_CWD = "/holdfast/of/some/session/workspace"


class PathLocation(StrEnum):
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
_TOP_LEVEL_FOLDERS = frozenset((
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root",
    "sbin", "sys", "usr", "var", "System", "Library", "Applications", "Users", "nix",
))
_SYSTEM_TREES = frozenset((
    "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/share", "/usr/local", "/var/lib",
))
_SYSTEM_FOLDERS = _TOP_LEVEL_FOLDERS - {"home", "root", "Users"} | {"opt"}
_TEMP_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp")
_HARMLESS_DEVICES = frozenset((
    "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd",
    "pts", "ptmx", "tcp", "udp", "shm", "console", "ttyS0",
))
_CACHE_FOLDERS = (
    ".cache/", ".npm/_cacache", ".gradle/caches", ".cargo/registry", ".local/share/Trash/",
)
# fmt: on
_WILDCARD_CHARACTERS = frozenset("*?.[]!^-")
_GLOB_CHARACTERS = frozenset("*?[")


class PathResolver(msgspec.Struct, frozen=True, kw_only=True):
    """The directories from which a command resolves its paths."""

    cwd: str = SESSION_CWD
    home: str = "/home/agent"
    workspaces: tuple[str, ...] = ("/workspace",)
    gateway_home: str = ""  # "": not known

    def is_of_gateway(self, path: str) -> bool:
        """Whether it is in the gateway's home, besides the workspaces in it."""
        full = self.resolve(path)
        inside = full == self.gateway_home or full.startswith(self.gateway_home + "/")
        return bool(self.gateway_home) and inside and self.locate(path) is not PathLocation.INSIDE

    def resolve(self, path: str) -> str:
        """The absolute path, without `.` and `..`. A `..` that leads from the workspace into a
        system folder is classified as that folder."""
        if path.startswith("/"):
            return _normalise(path)
        if path[:1] and path[0] in MARKERS:
            return path
        if self.cwd.startswith(SESSION_CWD) and path.startswith("../"):
            rest = path.replace("../", "")
            up = _normalise(posixpath.join(self.cwd, path))
            inside = up.startswith(SESSION_CWD + "/")
            return f"/{rest}" if not inside and rest.split("/")[0] in _TOP_LEVEL_FOLDERS else up
        return _normalise(posixpath.join(self.cwd, path))

    def locate(self, path: str) -> PathLocation:
        full = _strip_wildcards(self.resolve(path))
        if full[0] in MARKERS:
            return _locate_unknown(full)
        if full == "/":
            return PathLocation.ROOT
        for workspace in (SESSION_CWD, *self.workspaces):
            if full == workspace:
                return PathLocation.WORKSPACE
            if full.startswith(workspace + "/"):
                return PathLocation.INSIDE
        return self._locate_outside(full)

    def _locate_outside(self, full: str) -> PathLocation:
        for temp in _TEMP_FOLDERS:
            if full == temp:
                return PathLocation.TEMP_TREE
            if full.startswith(temp + "/"):
                return PathLocation.TEMP
        if full.startswith("/dev/"):
            mild = full.split("/")[2] in _HARMLESS_DEVICES
            return PathLocation.OUTSIDE if mild else PathLocation.DEVICE
        parts = full.split("/")[1:]
        if self._is_home(full, parts):
            return PathLocation.HOME
        if full.startswith(self.home + "/"):
            below = full[len(self.home) + 1 :] + "/"
            return PathLocation.CACHE if below.startswith(_CACHE_FOLDERS) else PathLocation.OUTSIDE
        return _locate_system(full, parts)

    def _is_home(self, full: str, parts: list[str]) -> bool:
        if full in (self.home, "/root", "/home", "/Users"):
            return True
        return len(parts) == 2 and parts[0] in ("home", "Users")

    def is_harmless_device(self, path: str) -> bool:
        full = self.resolve(path)
        return full.startswith("/dev/") and full.split("/")[2] in _HARMLESS_DEVICES


def _normalise(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path


def _strip_wildcards(path: str) -> str:
    """The folder that a pattern covers as a whole: the same for `/etc/*` and `/etc`."""
    while True:
        folder, _, last = path.rpartition("/")
        if not folder and not last:
            return "/"
        if last and not set(last) <= _WILDCARD_CHARACTERS:
            return path
        if path[0] != "/" and not folder:
            return path
        path = folder or "/"
        if path == "/":
            return path


def _locate_unknown(full: str) -> PathLocation:
    """Classifies a path below an unknown folder: its last part gives it a name; without one, or if
    the unknown folder could be empty and the path the root, it can be anything."""
    _, slash, rest = full.partition("/")
    first = rest.split("/")[0]
    if (
        not slash
        or not first
        or first in _TOP_LEVEL_FOLDERS
        or set(first) <= _WILDCARD_CHARACTERS | set(MARKERS)
    ):
        return PathLocation.UNKNOWN
    return PathLocation.INSIDE


def _locate_system(full: str, parts: list[str]) -> PathLocation:
    if full in _SYSTEM_TREES:
        return PathLocation.SYSTEM_TREE
    top = parts[0]
    if len(parts) == 1:
        globbed = not _GLOB_CHARACTERS.isdisjoint(top)
        if top in _TOP_LEVEL_FOLDERS or (
            globbed and any(fnmatchcase(name, top) for name in _TOP_LEVEL_FOLDERS)
        ):
            return PathLocation.SYSTEM_TREE
    return PathLocation.SYSTEM if top in _SYSTEM_FOLDERS else PathLocation.OUTSIDE

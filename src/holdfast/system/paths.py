"""Paths of the files and directories that belong to one home."""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.config.versions import CONFIG_FILE, ENV_FILE
from holdfast.core.errors import HoldfastError

# The kernel's limit for a socket's address is 108 bytes, with its closing zero.
SOCKET_PATH_LIMIT = 107
_LONGEST_SOCKET_NAME = len("/control.sock")


@dataclass(frozen=True, slots=True)
class Paths:
    """The locations under a home. Nothing is created by asking for one."""

    home: Path

    @property
    def config_file(self) -> Path:
        return self.home / CONFIG_FILE

    @property
    def env_file(self) -> Path:
        return self.home / ENV_FILE

    @property
    def db(self) -> Path:
        return self.home / "state.db"

    @property
    def search_db(self) -> Path:
        return self.home / "search.db"

    @property
    def lock(self) -> Path:
        return self.home / "gateway.lock"

    @property
    def intent(self) -> Path:
        return self.home / "gateway_state"

    def backups(self, named: str) -> Path:
        """Where backups are put: at the place that the settings name, if they do."""
        return self.home / Path(named or "backups").expanduser()

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def log_file(self) -> Path:
        return self.logs / "gateway.log"

    @property
    def workspaces(self) -> Path:
        return self.home / "workspaces"

    @property
    def outgoing(self) -> Path:
        """Uploaded files that are not delivered yet."""
        return self.home / "outgoing"

    @property
    def platforms(self) -> Path:
        """Files of platform plugins, by platform and account."""
        return self.home / "platforms"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets"

    @property
    def api_token(self) -> Path:
        return self.secrets / "api_token"

    @property
    def tokens(self) -> Path:
        """The digests of the created tokens."""
        return self.secrets / "tokens.json"

    @property
    def cookie_key(self) -> Path:
        return self.secrets / "cookie_key"

    @property
    def ended_logins(self) -> Path:
        return self.secrets / "ended_logins.json"

    @property
    def run(self) -> Path:
        """The folder of the sockets. If the path of the home is too long for a socket, it is in
        /tmp."""
        inside = self.home / "run"
        if len(os.fsencode(inside)) + _LONGEST_SOCKET_NAME <= SOCKET_PATH_LIMIT:
            return inside
        import hashlib  # noqa: PLC0415 - hardly any home is so deep

        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]
        return Path(f"/tmp/holdfast-{os.getuid()}-{digest}")

    @property
    def status_socket(self) -> Path:
        return self.run / "status.sock"

    @property
    def control_socket(self) -> Path:
        return self.run / "control.sock"


def private_dir(path: Path) -> Path:
    """Create a directory with mode 0700, or make sure that it has it.

    A directory of another user is refused: under /tmp any user may have created it first.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(path)
    path.chmod(0o700)
    return path


def check_owner(path: Path) -> None:
    """Raise unless this is a real directory of ours (root may own it too)."""
    found = path.lstat()
    if not path.is_dir() or path.is_symlink() or found.st_uid not in (os.getuid(), 0):
        raise HoldfastError(
            "{path} is not a directory that belongs to this user. Remove it. Where that is not "
            "allowed, choose a home with a shorter path (--home): its sockets are in the home",
            path=path,
        )

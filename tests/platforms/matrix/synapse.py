"""A real Synapse on loopback."""

import base64
import fcntl
import hashlib
import hmac
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.request import Request, urlopen

import pytest
from tests.support.ports import own_port

_TIMEOUT = 40.0  # seconds for a concurrent installation, and for the start
_SECRET = "registering"
LARGEST_UPLOAD = 512 * 1024  # bytes


def installed() -> Path:
    """The Python that has Synapse, once no installation is running; else the test is skipped."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-tests"
    if not _found(cache):
        for lock in cache.glob("synapse-*.lock"):
            _wait_for(lock)
    if not (found := _found(cache)):
        pytest.skip(f"there is no Synapse in {cache}: scripts/synapse installs it")
    return found[-1]


def _found(cache: Path) -> list[Path]:
    return sorted(cache.glob("synapse-*[0-9]/bin/python"))


def _wait_for(lock: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT
    with lock.open() as held:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.2)


@dataclass(frozen=True)
class Account:
    name: str  # the whole one
    token: str

    @property
    def password(self) -> str:
        return self.name[1:].partition(":")[0]


class Synapse:
    """Owns the process while its context is open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = own_port()
        self.base_url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        python = installed()
        (self._folder / "homeserver.yaml").write_text(json.dumps(self._config()))
        command = [str(python), "-m", "synapse.app.homeserver", "-c", "homeserver.yaml"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """Its data need not be kept."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def register(self, name: str) -> Account:
        """A new account, with a device. The password is the name."""
        nonce = self._post("/_synapse/admin/v1/register", method="GET")["nonce"]
        signed = "\0".join((nonce, name, name, "notadmin")).encode()
        mac = hmac.new(_SECRET.encode(), signed, hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": name, "admin": False, "mac": mac}
        given = self._post("/_synapse/admin/v1/register", body)
        return Account(name=given["user_id"], token=given["access_token"])

    def log_in(self, account: Account) -> Account:
        """The same account, as a new device."""
        identifier = {"type": "m.id.user", "user": account.password}
        body = {"type": "m.login.password", "identifier": identifier, "password": account.password}
        given = self._post("/_matrix/client/v3/login", body)
        return Account(name=given["user_id"], token=given["access_token"])

    def _post(self, path: str, body: Any = None, *, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.base_url + path, data, method=method), timeout=30) as answer:
            return json.load(answer)

    def _wait(self) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                self._post("/_matrix/client/versions", method="GET")
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self._folder / "log").read_text()[-4000:]) from None
                time.sleep(0.05)

    def _config(self) -> dict[str, Any]:
        plenty = {"per_second": 1000, "burst_count": 1000}
        listener = {
            "port": self._port,
            "type": "http",
            "tls": False,
            "bind_addresses": ["127.0.0.1"],
            "resources": [{"names": ["client"], "compress": False}],
        }
        key = base64.b64encode(os.urandom(32)).decode().rstrip("=")
        quiet = {"version": 1, "root": {"level": "ERROR"}, "disable_existing_loggers": False}
        (self._folder / "log.yaml").write_text(json.dumps(quiet))
        return {
            "server_name": "localhost",
            "listeners": [listener],
            "database": {"name": "sqlite3", "args": {"database": str(self._folder / "db")}},
            "max_upload_size": LARGEST_UPLOAD,
            "media_store_path": str(self._folder / "media"),
            "log_config": str(self._folder / "log.yaml"),
            "signing_key": f"ed25519 a_test {key}",
            "macaroon_secret_key": "macaroon",
            "form_secret": "form",
            "registration_shared_secret": _SECRET,
            "report_stats": False,
            "suppress_key_server_warning": True,
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "presence": {"enabled": False},
            "url_preview_enabled": False,
            "bcrypt_rounds": 4,
            "caches": {"sync_response_cache_duration": "0s"},  # else a look may be two minutes old
            "rc_message": plenty,
            "rc_registration": plenty,
            "rc_login": {"address": plenty, "account": plenty, "failed_attempts": plenty},
            "rc_joins": {"local": plenty, "remote": plenty},
            "rc_invites": {"per_room": plenty, "per_user": plenty, "per_issuer": plenty},
            "rc_room_creation": plenty,
        }

"""A real Prosody in a folder of its own, with a bot and two users, and faults on demand."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.ports import own_ports

MISSING = "{0} is not installed: scripts/system-packages, or apt-get install {0}, brings it"
USERS = ("bot", "ann", "bob")
_TIMEOUT = 30.0  # seconds for the server to be up

LARGEST_UPLOAD = 10 * 1024 * 1024  # bytes; the default of Prosody

_CONFIG = """
run_as_root = {root}
daemonize = false
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
plugin_paths = {{ "{folder}/modules" }}
certificates = "{folder}/certs"
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{}}
s2s_ports = {{}}
http_ports = {{ {http_port} }}
http_interfaces = {{ "127.0.0.1" }}
https_ports = {{}}
http_default_host = "upload.localhost"
modules_enabled = {{ "roster", "saslauth", "tls", "disco", "ping", "smacks", "mam", "posix" }}
modules_disabled = {{ "s2s" }}
authentication = "internal_plain"
allow_unencrypted_plain_auth = true
c2s_require_encryption = false
smacks_hibernation_time = 1
storage = "internal"
log = {{ info = "{folder}/prosody.log" }}
trouble_file = "{folder}/trouble"
VirtualHost "localhost"
  modules_enabled = {{ "trouble" }}
  ssl = {{ key = "{folder}/certs/key.pem"; certificate = "{folder}/certs/cert.pem" }}
VirtualHost "bare.localhost"
  modules_disabled = {{ "s2s", "tls", "mam", "smacks" }}
Component "rooms.localhost" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_room_default_public_jids = true
Component "unkept.localhost" "muc"
Component "upload.localhost" "http_file_share"
  http_external_url = "http://localhost:{http_port}/"
"""

# What becomes of the next message of the bot, by one word in a file; the word is taken away.
_TROUBLE = """
local st = require "util.stanza";
local path = module:get_option_string("trouble_file");

local function take()
	local file = io.open(path);
	if not file then return nil; end
	local word = file:read("*l");
	file:close();
	os.remove(path);
	return word;
end

local function trouble(event)
	local origin, stanza = event.origin, event.stanza;
	if not origin.username:find("^bot") or not stanza:get_child("body") then return; end
	local word = take();
	if word == "wait" then
		origin.send(st.error_reply(stanza, "wait", "policy-violation", "too fast"));
		return true;
	elseif word == "refuse" then
		origin.send(st.error_reply(stanza, "cancel", "not-allowed", "blocked"));
		return true;
	elseif word == "cut" then
		-- The message is delivered to all others, and no receipt is returned.
		module:add_timer(0, function () origin.conn:close(); end);
		origin.send = function () return true; end;
	end
end

module:hook("pre-message/bare", trouble, 100);
module:hook("pre-message/full", trouble, 100);
"""


class Prosody:
    """Owns the process while its context is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.http_port = own_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    def inject_fault(self, word: str) -> None:
        """Happens to the next message of the bot: wait, refuse or cut."""
        fresh = self.folder / "trouble.new"
        fresh.write_text(f"{word}\n")
        fresh.replace(self.folder / "trouble")

    @contextmanager
    def running(self) -> Iterator["Prosody"]:
        self._write()
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        command = ["prosody", *self._options(), "-F"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + _TIMEOUT
        while not _listens(self.port):
            assert self._process.poll() is None, (self.folder / "prosody.log").read_text()
            assert time.monotonic() < deadline, "it did not come up"
            time.sleep(0.02)

    def stop(self) -> None:
        assert self._process is not None, "it was not started"
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=_TIMEOUT)

    def set_password(self, name: str, password: str, *, host: str = "localhost") -> None:
        """https://prosody.im/doc/modules/mod_storage_internal: one file for each account."""
        accounts = self.folder / "data" / _encoded(host) / "accounts"
        accounts.mkdir(parents=True, exist_ok=True)
        (accounts / f"{_encoded(name)}.dat").write_text(
            f'return {{ ["password"] = "{password}" }};\n'
        )

    def _options(self) -> list[str]:
        root = ["--root"] if os.getuid() == 0 else []
        return [*root, "--config", str(self.folder / "prosody.cfg.lua")]

    def _write(self) -> None:
        modules, certificates = self.folder / "modules", self.folder / "certs"
        modules.mkdir()
        certificates.mkdir()
        (modules / "mod_trouble.lua").write_text(_TROUBLE)
        _certify(certificates)
        config = _CONFIG.format(
            folder=self.folder,
            port=self.port,
            http_port=self.http_port,
            root="true" if os.getuid() == 0 else "false",
        )
        (self.folder / "prosody.cfg.lua").write_text(config)
        for host in ("localhost", "bare.localhost"):
            for name in USERS:
                self.set_password(name, f"pw-{name}", host=host)

    @property
    def certificate(self) -> Path:
        return self.folder / "certs" / "cert.pem"


def need_prosody() -> None:
    for name in ("prosody", "openssl"):
        if shutil.which(name) is None:
            pytest.skip(MISSING.format(name))


def _certify(folder: Path) -> None:
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-days", "2", *curve, *subject, *files],
        check=True,
        capture_output=True,
    )


def _encoded(name: str) -> str:
    """As the server names files."""
    return "".join(each if each.isalnum() else f"%{ord(each):02x}" for each in name)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True

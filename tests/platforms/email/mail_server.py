"""A mail server: a real Dovecot and a real OpenSMTPD on loopback, in a folder of their own."""

import imaplib
import os
import shutil
import signal
import smtplib
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

from tests.support.ports import own_ports

PASSWORD = "pw"
_MAIL = 8  # neither server takes root for the owner of a mailbox

_DOVECOT = """
base_dir = {dir}/run
state_dir = {dir}/state
log_path = {dir}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = yes
ssl_cert = <{dir}/cert.pem
ssl_key = <{dir}/key.pem
disable_plaintext_auth = no
auth_failure_delay = 0
auth_mechanisms = plain login xoauth2
default_login_user = nobody
default_internal_user = nobody
default_internal_group = nogroup
first_valid_uid = 8
last_valid_uid = 8
mail_location = maildir:{dir}/home/%n/Maildir
mail_uid = 8
mail_gid = 8
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {dir}/oauth2.conf
}}
passdb {{
  driver = static
  mechanisms = plain login
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=8 gid=8 home={dir}/home/%n allow_all_users=yes
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    auto = subscribe
    special_use = \\Sent
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service stats {{
  chroot =
}}
protocol lmtp {{
  postmaster_address = postmaster@localhost
  auth_username_format = %n
}}
"""
# The token server of the test decides whose a token is.
_OAUTH = """
introspection_mode = post
introspection_url = http://127.0.0.1:{tokens}/introspect
username_attribute = username
active_attribute = active
active_value = true
"""
LARGEST_MAIL = 8 * 1024 * 1024  # bytes
_SMTPD = """
smtp max-message-size 8388608
listen on 127.0.0.1 port {smtp}
action "local" lmtp "127.0.0.1:{lmtp}" rcpt-to virtual {{ "@" = "mail" }}
match from any for domain "localhost" action "local"
"""
# OpenSMTPD has its queue and its socket at places of its own; here they are its alone, so that
# several can run on one machine. The place of the queue is made by its first start as a service:
# where it was only installed, there is none yet.
_APART = """
set -e
mount -t tmpfs tmpfs /var/spool
mkdir -m 711 /var/spool/smtpd
mount -t tmpfs tmpfs /run
exec smtpd -d -f {dir}/smtpd.conf
"""


def missing() -> str:
    """Why there can be none here; "": there can."""
    os.environ["PATH"] += "" if "/usr/sbin" in os.environ["PATH"] else ":/usr/sbin"
    for program, package in (("dovecot", "dovecot-imapd dovecot-lmtpd"), ("smtpd", "opensmtpd")):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install {package}"
    if os.geteuid() != 0:
        return "dovecot and smtpd have to be started as root"
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        return "mounts cannot be made apart here, and smtpd wants a queue of its own"
    return ""


class MailServer:
    """Owns both servers. Every address has a mailbox, with the same password."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("imap", "imaps", "lmtp", "smtp", "tokens")
        self.ports = dict(zip(names, own_ports(len(names)), strict=True))
        self._numbers = count(1)

    @contextmanager
    def open(self) -> Iterator["MailServer"]:
        self._write_files()
        commands = (
            ["dovecot", "-F", "-c", str(self._at("dovecot.conf"))],
            ["unshare", "-m", "sh", str(self._at("apart.sh"))],
        )
        with self._at("errors").open("ab") as errors:
            running = [subprocess.Popen(each, stdout=errors, stderr=errors) for each in commands]
        try:
            for name, port in self.ports.items():
                if name != "tokens":  # which is the tests' own
                    self._await(name, port)
            yield self
        finally:
            for process in running:
                process.send_signal(signal.SIGTERM)
            for process in running:
                process.wait(10)

    def new_address(self, name: str) -> str:
        """A new address."""
        return f"{name}{next(self._numbers)}@localhost"

    def deliver(self, mail: Message | bytes, *, to: str, sender: str = "ann@localhost") -> None:
        """It is in the mailbox when this returns. By LMTP, as the last server on its way does."""
        source = mail if isinstance(mail, bytes) else mail.as_bytes()
        with smtplib.LMTP("127.0.0.1", self.ports["lmtp"]) as lmtp:
            lmtp.sendmail(sender, [to], source)

    def add_sent_copy(self, source: bytes, *, of: str) -> None:
        """A copy in their folder of sent mail, as servers make one that keep such by themselves."""
        with imaplib.IMAP4("127.0.0.1", self.ports["imap"]) as imap:
            imap.login(of, PASSWORD)
            imap.append("Sent", None, None, source)

    def mails(self, address: str, folder: str = "") -> list[Message]:
        """What is in a mailbox, the oldest first."""
        box = self.folder / "home" / address.partition("@")[0] / "Maildir" / folder
        found = [each for part in ("new", "cur") for each in (box / part).glob("*")]
        return [message_from_bytes(each.read_bytes()) for each in sorted(found, key=_age)]

    def renumber(self, address: str) -> None:
        """The server says that its numbers mean others than before."""
        update = ["doveadm", "-c", str(self._at("dovecot.conf")), "mailbox", "update"]
        who = ["-u", address.partition("@")[0], "--uid-validity", "2000000000", "INBOX"]
        subprocess.run([*update, *who], check=True, capture_output=True)

    def _write_files(self) -> None:
        self.folder.chmod(0o755)
        home = self._at("home")
        home.mkdir()
        os.chown(home, _MAIL, _MAIL)
        make = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ]
        make += ["-subj", "/CN=localhost"]
        make += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        make += ["-keyout", str(self._at("key.pem")), "-out", str(self._at("cert.pem"))]
        subprocess.run(make, check=True, capture_output=True)
        self._at("key.pem").chmod(0o600)
        facts = {"dir": self.folder, "password": PASSWORD, **self.ports}
        for name, text in (
            ("dovecot.conf", _DOVECOT),
            ("oauth2.conf", _OAUTH),
            ("smtpd.conf", _SMTPD),
            ("apart.sh", _APART),
        ):
            self._at(name).write_text(text.format(**facts))
            self._at(name).chmod(0o600)

    def _await(self, name: str, port: int) -> None:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{name}: {self._at('errors').read_text()}") from None
                time.sleep(0.02)

    def _at(self, name: str) -> Path:
        return self.folder / name


@contextmanager
def running_mail_server() -> Iterator[MailServer]:
    folder = Path(mkdtemp(prefix="mail-"))  # short: the names of sockets have a greatest length
    try:
        with MailServer(folder).open() as mail_server:
            yield mail_server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _age(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime_ns, path.name

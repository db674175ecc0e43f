"""Tests the settings of a mailbox: strict checks and safe defaults."""

from pathlib import Path

import pytest
from tests.support.platform_gateway import write_config

from holdfast.config import ConfigError, load
from holdfast.core.messages.inbox import BusyMode
from holdfast.platforms.email.platform import capabilities_of
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.service.platforms import open_platforms
from holdfast.system.clock import SystemClock

ENVIRON = {"ONE": "secret-one"}
WHOLE = """
[platforms.email]
address = "bot@example.org"
password = "env:ONE"
imap_host = "imap.example.org"
smtp_host = "smtp.example.org"
authserv_id = "mx.example.org"
allow = ["ann@example.org"]
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('address = "bot@example.org"', ""), "address is missing"),
        (('password = "env:ONE"', ""), "password is missing"),
        (('smtp_host = "smtp.example.org"', ""), "smtp_host is missing"),
        (('authserv_id = "mx.example.org"', ""), "anyone can forge a From address"),
        (("ann@", "Ann@"), "write 'ann@example.org' instead"),
        (
            ('authserv_id = "mx', 'imap_security = "plain"\nauthserv_id = "mx'),
            "in clear text to imap",
        ),
        (('authserv_id = "mx', 'idle_seconds = 1800\nauthserv_id = "mx'), "idle_seconds"),
    ],
)
def test_a_wrong_setting_is_named_with_a_remedy(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(write_config(tmp_path / "home", WHOLE.replace(*change)), ENVIRON)


def test_a_mailbox_sends_no_notices_and_no_pairing_codes_by_default(tmp_path: Path) -> None:
    """D5: notices are off here, and so are pairing codes, which would answer spam."""
    config = load(write_config(tmp_path / "home", WHOLE), ENVIRON)
    (platform,) = open_platforms(config, clock=SystemClock(), new_id=lambda prefix: prefix)
    settings = config.settings.platforms["email"]
    assert isinstance(settings, EmailSettings)
    assert not (settings.pairing or settings.restart_notices or platform.capabilities.busy_notices)
    assert settings.busy_mode is BusyMode.QUEUE
    assert (settings.effective_imap_port(), settings.effective_smtp_port()) == (993, 465)


def test_idle_is_renewed_before_the_server_disconnects() -> None:
    """RFC 2177: after half an hour at the latest; and silence is noticed soon after that."""
    settings = EmailSettings(enabled=False)
    assert settings.idle_seconds < capabilities_of(settings).heartbeat_interval < 29 * 60

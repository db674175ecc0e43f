"""Tests a gateway with a mailbox that is killed when a mail is committed (G1, G2)."""

import asyncio
import json
import signal
from pathlib import Path

from tests.faults.standalone_gateway import StandaloneGateway
from tests.platforms.email.builders import mail, plain_text, settings_for, until, write_checkpoint
from tests.platforms.email.mail_server import PASSWORD, MailServer

from holdfast.core.config.settings import DEFAULT_ACCOUNT

_KEYS = ("imap_host", "imap_port", "imap_security", "smtp_host", "smtp_port", "smtp_security")


async def test_a_gateway_killed_after_it_accepted_a_mail_answers_it_once(
    tmp_path: Path, mail_server: MailServer
) -> None:
    """G1, G2: the row is durable, and how far was read commits with it."""
    bot, ann = mail_server.new_address("bot"), mail_server.new_address("ann")
    settings = settings_for(mail_server, bot)
    gateway = StandaloneGateway(tmp_path / "home")
    settings_by_key = {key: str(getattr(settings, key)) for key in _KEYS}
    settings_by_key |= {"address": bot, "password": "env:MAIL_PASSWORD", "allow": json.dumps([ann])}
    settings_by_key |= {"smtp_login": "false", "authserv_id": settings.authserv_id}
    gateway.variables = {
        f"HOLDFAST_PLATFORMS_EMAIL_{key.upper()}": each for key, each in settings_by_key.items()
    }
    gateway.variables |= {"MAIL_PASSWORD": PASSWORD, "HOLDFAST_CRASH_AT": "accept_committed"}
    await write_checkpoint(settings, gateway.paths.platforms / "email" / DEFAULT_ACCOUNT)
    await asyncio.to_thread(
        mail_server.deliver, mail("hello", by=ann, to=bot, subject="Hi"), to=bot
    )
    try:
        gateway.launch()
        assert await asyncio.to_thread(gateway.wait_for_exit) == -signal.SIGKILL
        assert mail_server.mails(ann) == []
        del gateway.variables["HOLDFAST_CRASH_AT"]
        await asyncio.to_thread(gateway.start)
        await until(lambda: mail_server.mails(ann))
        await asyncio.to_thread(gateway.until, lambda: has_connected(gateway))
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        if gateway.process is not None and gateway.process.poll() is None:
            await asyncio.to_thread(gateway.stop)
    (answer,) = mail_server.mails(ann)
    assert answer["Subject"] == "Re: Hi"
    assert plain_text(answer)


def has_connected(gateway: StandaloneGateway) -> bool:
    """By the gateway itself, whose word may be a moment old."""
    accounts = [
        each for each in gateway.status()["snapshot"]["platforms"] if each["name"] == "email"
    ]
    return any(each["last_ok_at"] is not None for each in accounts)

"""A real gateway with a mailbox: killed when a mail was committed, and nothing more."""

import asyncio
import json
import signal
from pathlib import Path

from tests.faults.lone_gateway import Lone
from tests.platforms.email.builders import known_to, mail, settings_for, until, words_of
from tests.platforms.email.mail_server import PASSWORD, PostOffice

from holdfast.core.config.settings import DEFAULT_ACCOUNT

_KEYS = ("imap_host", "imap_port", "imap_security", "smtp_host", "smtp_port", "smtp_security")


async def test_a_gateway_that_was_killed_when_it_had_a_mail_answers_it_once(
    tmp_path: Path, office: PostOffice
) -> None:
    """G1, G2: the row is durable, and how far was read commits with it."""
    bot, ann = office.person("bot"), office.person("ann")
    settings = settings_for(office, bot)
    lone = Lone(tmp_path / "home")
    said = {key: str(getattr(settings, key)) for key in _KEYS}
    said |= {"address": bot, "password": "env:MAIL_PASSWORD", "allow": json.dumps([ann])}
    said |= {"smtp_login": "false", "authserv_id": settings.authserv_id}
    lone.variables = {f"HOLDFAST_PLATFORMS_EMAIL_{key.upper()}": each for key, each in said.items()}
    lone.variables |= {"MAIL_PASSWORD": PASSWORD, "HOLDFAST_CRASH_AT": "accept_committed"}
    await known_to(settings, lone.paths.platforms / "email" / DEFAULT_ACCOUNT)
    await asyncio.to_thread(office.deliver, mail("hello", by=ann, to=bot, subject="Hi"), to=bot)
    try:
        lone.begin()
        assert await asyncio.to_thread(lone.ended) == -signal.SIGKILL
        assert office.mails(ann) == []
        del lone.variables["HOLDFAST_CRASH_AT"]
        await asyncio.to_thread(lone.start)
        await until(lambda: office.mails(ann))
        await asyncio.to_thread(lone.until, lambda: proven(lone))
        assert await asyncio.to_thread(lone.stop) == 0
    finally:
        if lone.process is not None and lone.process.poll() is None:
            await asyncio.to_thread(lone.stop)
    (answer,) = office.mails(ann)
    assert answer["Subject"] == "Re: Hi"
    assert words_of(answer)


def proven(lone: Lone) -> bool:
    """By the gateway itself, whose word may be a moment old."""
    accounts = [each for each in lone.status()["snapshot"]["platforms"] if each["name"] == "email"]
    return any(each["last_ok_at"] is not None for each in accounts)

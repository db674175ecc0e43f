"""Every reply to a command is marked for translation.

In the pseudo-locale, a translated text is in ⟦…⟧. Outside of these brackets a reply may contain
only commands, ids, numbers and what people wrote.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.approvals import DD, RM, ApprovalHarness
from tests.support.gateway_harness import Call, GatewayHarness

from holdfast.core.commands import COMMANDS
from holdfast.core.config.settings import GatewaySettings, PlatformSettings
from holdfast.core.messages.source import ChatType
from holdfast.system.languages import PSEUDO_LOCALE

FISH, JOB = "fish and chips", '/cron add "every day at 9" mow'
# The messages of one conversation; "ok" is the reply of the agent.
CONVERSATIONS = (
    ("/approvals", "/approvals frob", "/approvals revoke", "/approvals revoke 1"),
    ("/approve", "/approve ap_1", "/approve 3", "/approve frob"),
    ("/deny", "/deny 1 because"),
    ("/background", "/background mow"),
    ("/busy", "/busy queue", "/busy", "/busy steer", "/busy default", "/busy frob"),
    ("/compact", FISH, "/compact"),
    ("/cron", "/cron frob", "/cron add x", '/cron add "never" x', '/cron add "at 9"', "/cron run"),
    (JOB, "/cron list", "/cron pause 1", "/cron list", "/cron resume 1", "/cron history 1"),
    (JOB, "/cron run 1", "/cron history 1", "/cron stop 1", "/cron rm 1", "/cron rm 1"),
    ('/cron add "every minute" to=nowhere silent=yes missed=all overlap=queue mow',),
    ('/cron add "tomorrow" x', '/cron add "at 25" x', '/cron add "every 10 seconds" x'),
    ('/cron add "* * *" x', '/cron add "@often" x', '/cron add "2020-01-01 09:00" x'),
    (
        '/cron add "at 9 in Mars/Base" x',
        '/cron add "at 9" to=frob:x y',
        '/cron add "at 9" limit=x y',
    ),
    ("/fork", FISH, "/fork", "/title"),
    ("/help", "/help new", "/help undo", "/help frob", "/frob", "/statu"),
    ("/memory", "/memory frob", "/memory add", "/memory add tea", "/memory", "/memory edit"),
    ("/memory add tea", "/memory edit 1 mow", "/memory edit 7 mow", "/memory forget"),
    ("/memory add tea", "/memory forget 7", "/memory clear", "/memory clear yes", "/memory clear"),
    ("/memory add tea", "/memory off", "/memory", "/memory add mow", "/memory on"),
    ("/model", "/model frob", "/model", "/model default"),
    (FISH, "/new", "/resume"),
    ("/pairing", "/pairing frob", "/pairing approve ABCD-EFGH", "/pairing deny frob"),
    ("/pairing revoke frob", "/pairing approve ABCD-EFGH"),
    ("/queue", "/quiet", "/quiet on", "/quiet", "/quiet off", "/quiet default", "/quiet frob"),
    ("/restart", "/restart frob"),
    ("/resume", "/resume frob", FISH, "/resume 1", "/resume frob", "/new", "/resume 1"),
    ("/retry", "/undo", "/undo frob", FISH, "/undo"),
    ("/search", "/search frob", FISH, "/search fish"),
    ("/sessions", FISH, "/new", "/sessions"),
    ("/sethome frob", "/sethome", "/sethome off", "/quiet on", "/sethome"),
    ("/status", FISH, "/status", "/status frob"),
    ("/steer", "/stop", "/stop all"),
    ("/title", FISH, "/title", "/title mow", "/title"),
    ("/usage", FISH, "/usage"),
)
_INNERMOST = re.compile(r"⟦[^⟦⟧]*⟧")
_WORD = re.compile(r"[^\W\d_]{2,}")
_USAGES = sorted((spec.usage for spec in COMMANDS), key=len, reverse=True)


def untranslated(reply: str, *, known: str) -> list[str]:
    """The words of a reply that are neither translated nor known."""
    while _INNERMOST.search(reply):
        reply = _INNERMOST.sub(" ", reply)
    for usage in _USAGES:
        reply = reply.replace(usage, " ")
    reply = re.sub(r"/\w+|\b[a-z]+_\w+", " ", reply)
    return [word for word in _WORD.findall(reply) if word not in known]


@pytest.fixture
async def operator_harness(harness: GatewayHarness) -> GatewayHarness:
    """A gateway whose language is the pseudo-locale, and whose operator is Ann."""
    await harness.stop()
    harness.settings = msgspec.structs.replace(
        harness.settings,
        gateway=GatewaySettings(language=PSEUDO_LOCALE),
        platforms={"simulated": PlatformSettings(allow=("ann", "bob"), operators=("ann",))},
    )
    await harness.start()
    return harness


async def replies_to(harness: GatewayHarness, message: str, **more: str) -> list[str]:
    """What is sent because of a message, once all of it is sent."""
    before = len(harness.service.ledger().sent)
    harness.say(message, **more)
    return (await harness.texts(before + 1))[before:]


@pytest.mark.parametrize("messages", CONVERSATIONS, ids=lambda messages: messages[0])
async def test_replies_to_commands_are_marked_for_translation(
    operator_harness: GatewayHarness, messages: tuple[str, ...]
) -> None:
    known = " ".join(("ok interrupt queue steer", *messages))
    operator_harness.model.say(*["ok"] * 9)
    for message in messages:
        for reply in await replies_to(operator_harness, message):
            if message.startswith("/"):
                assert untranslated(reply, known=known) == [], reply


def test_each_command_is_in_a_conversation() -> None:
    given = {message.split()[0] for messages in CONVERSATIONS for message in messages}
    assert {f"/{spec.name}" for spec in COMMANDS} - given == set()


@pytest.mark.parametrize("command", ["/restart", "/pairing", "/sethome", "/status x", "/frob"])
async def test_refusals_are_marked_for_translation(
    operator_harness: GatewayHarness, command: str
) -> None:
    for user, chat in (("bob", "bobs"), ("eve", "eves")):
        for reply in await replies_to(operator_harness, command, user=user, chat=chat):
            assert untranslated(reply, known="holdfast pairing approve") == [], reply


async def test_a_group_sees_only_marked_texts(operator_harness: GatewayHarness) -> None:
    operator_harness.model.say("ok")
    for message in ("/usage", "/memory", FISH, "/usage", "/sessions"):
        [reply] = await replies_to(
            operator_harness, message, chat="group", chat_type=ChatType.GROUP
        )
        assert message == FISH or untranslated(reply, known=FISH) == [], reply


@pytest.fixture
async def approvals(tmp_path: Path) -> AsyncIterator[ApprovalHarness]:
    harness = ApprovalHarness(tmp_path / "state.db")
    harness.settings = msgspec.structs.replace(
        harness.settings, gateway=GatewaySettings(language=PSEUDO_LOCALE)
    )
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize(
    "commands",
    [
        ("/approvals", "/approve 7", "/compact", "/approve", "/approve 1", "/approve 2 always"),
        ("/approve all session", "/approvals", "/approvals revoke 1"),
        ("/deny 1 no", "/deny 1", "/deny all", "/deny"),
    ],
)
async def test_texts_about_approvals_are_marked_for_translation(
    approvals: ApprovalHarness, call: Call, commands: tuple[str, ...]
) -> None:
    # The reasons are those of the harness's own judge, which no catalogue knows.
    reasons = "It deletes files. It writes raw."
    commands_shown = f"rm -rf build dd if=/dev/zero of=disk dev zero delete simulated ann {reasons}"
    approvals.model.say([call("shell", RM), call("shell", DD)], "ok")
    [request] = await replies_to(approvals, "go")
    assert untranslated(request, known=commands_shown) == [], request
    for command in commands:
        for reply in await replies_to(approvals, command):
            assert reply == "ok" or untranslated(reply, known=commands_shown) == [], reply

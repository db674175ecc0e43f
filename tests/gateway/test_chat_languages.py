"""The bot answers each person in their language: as the platform tells it, else as configured.

The pseudo-locale stands for any language: its texts are in ⟦…⟧.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.gateway.test_authorization import approval
from tests.support.approvals import ApprovalHarness
from tests.support.gateway_harness import Call, GatewayHarness

from holdfast.core.config.settings import GatewaySettings, PlatformSettings, Settings
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import ToolMessage
from holdfast.core.text.translation import ENGLISH, _, current_language, use_catalogue
from holdfast.core.turns.model import ToolSchema
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput
from holdfast.gateway.approvals.prompt import reason_for_person
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.send_policy import SEND_REASON, SEND_RULE
from holdfast.system.languages import PSEUDO_LOCALE, catalogue_for
from holdfast.testing.simulated.service import ChatService
from holdfast.tools.shell.judge import ShellJudge


class LanguageTool:
    """Returns a text that is marked for translation, and the language it was called in."""

    schema = ToolSchema(name="language", description="x", parameters={"type": "object"})
    toolset = "test"
    danger = Danger.NONE
    replay = ReplayClass.SAFE

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        return ToolOutput(text=f"{current_language()}: {_('Nothing is running.')}")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ApprovalHarness]:
    harness = ApprovalHarness(tmp_path / "state.db")
    harness.service = ChatService(buttons=True, restart_notices=True)
    harness.extra_tools.append(LanguageTool())
    harness.judge = ShellJudge()
    await harness.start()
    yield harness
    await harness.stop()


def _is_translated(text: str) -> bool:
    return text.startswith("⟦") and text.endswith("⟧")


async def test_a_command_is_answered_in_the_language_of_its_sender(
    harness: GatewayHarness,
) -> None:
    harness.say("/stop", user="ann", language=PSEUDO_LOCALE)
    (pseudo,) = await harness.texts(1)
    harness.say("/stop", user="bob", chat="bobs", language="en-GB")
    _first, english = await harness.texts(2)
    assert _is_translated(pseudo) and pseudo.strip("⟦⟧ ") == english.strip()


async def test_gateway_language_is_for_platforms_that_do_not_tell_it_and_can_change(
    harness: GatewayHarness,
) -> None:
    settings = msgspec.structs.replace(
        harness.settings, gateway=GatewaySettings(language=PSEUDO_LOCALE)
    )
    harness.gateway.apply_config(msgspec.structs.replace(harness.agent_config, settings=settings))
    harness.say("/stop")
    harness.say("/stop", chat="other", language="en")
    harness.say("/stop", chat="third", language="xx")  # a language that is not installed
    sent = {each.outgoing.chat_id: each.outgoing.text for each in await harness.sent(3)}
    assert _is_translated(sent["home"]) and _is_translated(sent["third"])
    assert not _is_translated(sent["other"])


async def test_what_the_model_reads_is_english(harness: GatewayHarness, call: Call) -> None:
    harness.model.say([call("language", "{}")], "done")
    harness.say("go", language=PSEUDO_LOCALE)
    assert await harness.texts(1) == ["done"]
    (result,) = [
        message
        for message in await harness.transcript(await harness.only_session())
        if isinstance(message, ToolMessage)
    ]
    assert result.text == "en: Nothing is running."


async def test_an_approval_is_requested_in_the_language_of_the_requester(
    harness: ApprovalHarness, call: Call
) -> None:
    harness.model.say([call("shell", '{"command": "sudo ls"}')], "done")
    harness.say("clean up", language=PSEUDO_LOCALE)
    (request,) = await harness.sent(1)
    assert "⟦It would run with the rights of another user, most likely root.⟧" in (
        request.outgoing.text
    )
    assert all(_is_translated(button.label) for button in request.outgoing.choices)
    harness.say("no", language=PSEUDO_LOCALE)
    await harness.texts(2)


async def test_an_unknown_sender_reads_code_and_welcome_in_their_language(
    harness: GatewayHarness,
) -> None:
    harness.say("hello", user="eve", chat="eves", language=PSEUDO_LOCALE)
    (code,) = await harness.texts(1)
    assert _is_translated(code)
    typed = code.split("code is ")[1][:9]
    operators = PlatformSettings(allow=("ann", "bob"), operators=("ann",))
    settings = Settings(platforms={"simulated": operators})
    harness.gateway.apply_config(msgspec.structs.replace(harness.agent_config, settings=settings))
    harness.say(f"/pairing approve {typed}")
    sent = {each.outgoing.chat_id: each.outgoing.text for each in (await harness.sent(3))[1:]}
    assert _is_translated(sent["eves"]) and not _is_translated(sent["home"])


async def test_a_stop_is_announced_in_the_language_of_the_chat_that_it_interrupts(
    harness: GatewayHarness,
) -> None:
    for chat, language in (("home", PSEUDO_LOCALE), ("other", "")):
        harness.say("work", chat=chat, language=language)
    await harness.model.wait_for_request(2)
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.CLI, at=0.0)
    await harness.gateway.lifecycle_notices.send_shutdown_notices(order)
    sent = {each.outgoing.chat_id: each.outgoing.text for each in await harness.sent(2)}
    assert _is_translated(sent["home"]) and not _is_translated(sent["other"])
    assert "try to resume" in sent["home"] and "try to resume" in sent["other"]


def test_a_reply_to_a_restart_is_in_the_language_in_which_it_was_requested() -> None:
    """Also after the restart, when no message is known of the chat."""
    languages = ChatLanguages(LiveSettings(Settings()))
    here = Address(platform="simulated", account="default", chat_id="home")
    assert languages.of_chat(here) is ENGLISH
    assert languages.of_chat(here, known=PSEUDO_LOCALE).language == PSEUDO_LOCALE
    languages.record(
        Source(platform="simulated", chat_id="home", user_id="ann", language=PSEUDO_LOCALE)
    )
    assert languages.of_chat(here).language == PSEUDO_LOCALE
    assert languages.of_chat(here, known="en") is ENGLISH


def test_the_reason_of_a_message_to_another_chat_is_translated() -> None:
    reason = SEND_REASON.format(chat="slack:work:C1")
    request = approval("one", SEND_RULE.format(chat="slack:work:C1"), why=reason)
    assert reason_for_person(request) == "It sends a message to another chat: slack:work:C1."
    with use_catalogue(catalogue_for(PSEUDO_LOCALE)):
        assert reason_for_person(request) == f"⟦{reason}⟧"

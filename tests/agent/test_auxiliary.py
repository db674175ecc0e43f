"""Tests of auxiliary requests: titles and picture descriptions, with clients of their own."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, Until
from tests.support.two_models import auxiliary_model, small_harness, with_auxiliary

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.core.config.settings import (
    AuxiliarySettings,
    ModelSettings,
    Provider,
    Settings,
    VisionMode,
)
from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import Image, NoteMessage, UserMessage
from holdfast.core.ports.store_commands import RenameSession
from holdfast.core.ports.store_queries import GetAuxiliaryUsage, GetTurn, ListSessions
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import (
    AuxiliaryFailed,
    AuxiliaryTask,
    ModelFailed,
    ModelFault,
    ModelRequest,
)
from holdfast.testing.scripted_model import ScriptedModel

PICTURE = Image(media_type="image/png", data="aGk=")
REQUEST = ModelRequest(system="s", messages=(UserMessage(text="x"),))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = small_harness(tmp_path, auxiliary=AuxiliarySettings(model="helper"), window=0)
    await harness.start()
    yield harness
    await harness.stop()


async def title(harness: GatewayHarness) -> str:
    (session,) = await harness.store.read(ListSessions(limit=10))
    return session.title


async def exchange(harness: GatewayHarness, text: str, reply: str = "ok") -> None:
    harness.model.say(reply)
    await harness.end_of(await harness.accept(text))


async def test_a_session_is_named_after_its_first_turn_and_no_turn_waits_for_it(
    harness: GatewayHarness, until: Until
) -> None:
    await exchange(harness, "how do I boil an egg, please?")
    await auxiliary_model(harness).wait_for_request(1)
    assert await title(harness) == "how do I boil an egg, please?"
    await exchange(harness, "and two?")
    auxiliary_model(harness).say('"Boiling eggs."')

    async def named() -> bool:
        return await title(harness) == "Boiling eggs"

    await until(named)
    await exchange(harness, "and three?")
    assert len(auxiliary_model(harness).requests) == 1


async def test_a_title_contains_no_part_of_a_secret(harness: GatewayHarness, until: Until) -> None:
    """A title is truncated: redaction would not recognise half a secret."""
    secret = "sk-" + "s3cret" * 20
    await harness.stop()
    harness.secrets = [Secret(secret)]
    await harness.start()
    await exchange(harness, "what is this?")
    auxiliary_model(harness).say(f"The key {secret}")

    async def named() -> bool:
        return (await title(harness)).startswith("The key")

    await until(named)
    assert await title(harness) == "The key [redacted]"


async def test_title_usage_is_counted_apart_from_the_turn(
    harness: GatewayHarness, until: Until
) -> None:
    harness.model.say("ok")
    ended = await harness.end_of(await harness.accept("hello"))
    auxiliary_model(harness).say("A greeting")
    session_id = await harness.only_session()

    async def counted() -> bool:
        return bool(await harness.store.read(GetAuxiliaryUsage(session_id=session_id)))

    await until(counted)
    assert ended.turn_id is not None
    turn = await harness.store.read(GetTurn(turn_id=ended.turn_id))
    assert turn is not None
    assert turn.usage == ended.usage
    assert (await harness.store.read(GetAuxiliaryUsage(session_id=session_id)))[
        AuxiliaryTask.TITLE
    ].input_tokens > 0


@pytest.mark.parametrize("reply", ["", ModelFailed("no", fault=ModelFault.AUTH)])
async def test_the_first_words_stay_the_title_if_the_model_gives_none(
    harness: GatewayHarness, until: Until, reply: str | ModelFailed
) -> None:
    await exchange(harness, "first words")
    auxiliary_model(harness).say(reply)
    await until(lambda: auxiliary_model(harness).leased == 0)
    assert await title(harness) == "first words"


async def test_a_title_that_its_owner_gave_is_kept(harness: GatewayHarness, until: Until) -> None:
    await exchange(harness, "first words")
    await auxiliary_model(harness).wait_for_request(1)
    await harness.store.write(
        RenameSession(session_id=await harness.only_session(), title="my own")
    )
    auxiliary_model(harness).say("Another")
    await until(lambda: auxiliary_model(harness).leased == 0)
    assert await title(harness) == "my own"


async def test_titles_can_be_turned_off(harness: GatewayHarness) -> None:
    await harness.stop()
    harness.settings = with_auxiliary(harness.settings, titles=False)
    await harness.start()
    await exchange(harness, "first words")
    await exchange(harness, "more")
    assert auxiliary_model(harness).requests == []


@pytest.mark.parametrize(
    ("model", "auxiliary", "is_enabled"),
    [
        (ModelSettings(provider=Provider.OPENAI), AuxiliarySettings(), True),
        (ModelSettings(provider=Provider.ANTHROPIC), AuxiliarySettings(titles=False), False),
        (
            ModelSettings(provider=Provider.OPENAI, base_url="http://x/v1"),
            AuxiliarySettings(),
            False,
        ),
        (
            ModelSettings(provider=Provider.LOCAL, base_url="http://x/v1"),
            AuxiliarySettings(),
            False,
        ),
        (ModelSettings(provider=Provider.LOCAL), AuxiliarySettings(model="small"), True),
        (ModelSettings(provider=Provider.DEMO), AuxiliarySettings(model="small"), False),
    ],
)
def test_titles_are_enabled_only_for_hosted_or_dedicated_models(
    model: ModelSettings, auxiliary: AuxiliarySettings, is_enabled: bool
) -> None:
    settings = Settings(model=model, auxiliary=auxiliary)
    made = AuxiliaryClient(settings, lease=ScriptedModel().lease, model="m")
    assert made.is_enabled(AuxiliaryTask.TITLE) is is_enabled


def test_the_demo_model_gets_no_auxiliary_tasks() -> None:
    settings = Settings(model=ModelSettings(provider=Provider.DEMO))
    made = AuxiliaryClient(settings, lease=ScriptedModel().lease, model="demo")
    assert not any(made.is_enabled(task) for task in AuxiliaryTask)


async def test_a_session_that_ends_takes_its_auxiliary_client_with_it(
    harness: GatewayHarness, until: Until
) -> None:
    """C9, A11: reaped with the session that is closed; that of another stays."""
    for chat in ("one", "two"):
        harness.model.say("ok")
        await harness.end_of(await harness.accept(f"in {chat}", chat=chat))
    await auxiliary_model(harness).wait_for_request(2)
    assert auxiliary_model(harness).leased == 2
    await harness.end_of(await harness.accept("/new", chat="one"))
    await until(lambda: auxiliary_model(harness).leased == 1)
    auxiliary_model(harness).say("A title")
    await until(lambda: auxiliary_model(harness).leased == 0)


async def test_a_stop_closes_every_auxiliary_client(harness: GatewayHarness) -> None:
    """C9: also those that are in the middle of a call; and no stop waits for one."""
    await exchange(harness, "hello")
    await auxiliary_model(harness).wait_for_request(1)
    await harness.stop()
    assert auxiliary_model(harness).leased == 0
    assert "close auxiliary clients" in harness.states
    await harness.start()


async def test_a_hanging_request_times_out_and_a_closed_client_asks_nothing() -> None:
    model = ScriptedModel()
    settings = Settings(auxiliary=AuxiliarySettings(timeout=0.02))
    made = AuxiliaryClient(settings, lease=model.lease, model="m")
    with pytest.raises(AuxiliaryFailed, match="in time"):
        await made.ask(AuxiliaryTask.SUMMARY, REQUEST, session_id=SessionId("s"))
    assert (len(made), model.leased) == (0, 0)
    await made.close()
    with pytest.raises(AuxiliaryFailed):
        await made.ask(AuxiliaryTask.SUMMARY, REQUEST, session_id=SessionId("s"))
    assert len(model.requests) == 1


async def test_ending_an_unknown_session_changes_nothing() -> None:
    model = ScriptedModel()
    made = AuxiliaryClient(Settings(), lease=model.lease, model="m")
    request_task = asyncio.create_task(
        made.ask(AuxiliaryTask.SUMMARY, REQUEST, session_id=SessionId("mine"))
    )
    await model.wait_for_request(1)
    await made.end_session(SessionId("another"))
    model.say("still here")
    assert (await request_task).message.text == "still here"


async def disable_vision(harness: GatewayHarness) -> None:
    await harness.stop()
    model = msgspec.structs.replace(harness.settings.model, vision=VisionMode.NO)
    harness.settings = msgspec.structs.replace(
        with_auxiliary(harness.settings, titles=False), model=model
    )
    await harness.start()


async def test_a_picture_is_described_once_for_a_model_that_cannot_see(
    harness: GatewayHarness,
) -> None:
    await disable_vision(harness)
    auxiliary_model(harness).say("A red boat on a lake.")
    harness.model.say("a boat!")
    ended = await harness.end_of(await harness.accept("what is this?", images=(PICTURE,)))
    assert ended.text == "a boat!"
    (request,) = auxiliary_model(harness).requests
    assert request.messages[-1].images == (PICTURE,)  # type: ignore[union-attr]
    transcript = await harness.transcript(await harness.only_session())
    assert [type(message) for message in transcript[:2]] == [UserMessage, NoteMessage]
    assert "A red boat on a lake." in transcript[1].text
    await harness.stop()
    await harness.start()
    await exchange(harness, "and the colour?")
    shown = harness.model.requests[-1].messages
    assert not any(isinstance(m, UserMessage) and m.images for m in shown)
    assert any("A red boat on a lake." in message.text for message in shown)
    assert len(auxiliary_model(harness).requests) == 1


async def test_a_picture_that_cannot_be_described_is_reported_to_the_model(
    harness: GatewayHarness,
) -> None:
    await disable_vision(harness)
    auxiliary_model(harness).say(ModelFailed("no", fault=ModelFault.BAD_REQUEST))
    harness.model.say("I cannot see it")
    await harness.end_of(await harness.accept("what is this?", images=(PICTURE,)))
    (_, note, *_) = await harness.transcript(await harness.only_session())
    assert "could not be described" in note.text


async def test_a_model_that_sees_is_shown_the_picture_itself(harness: GatewayHarness) -> None:
    await harness.stop()
    harness.settings = with_auxiliary(harness.settings, titles=False)
    await harness.start()
    harness.model.say("nice")
    await harness.end_of(await harness.accept("look", images=(PICTURE,)))
    assert harness.model.requests[-1].messages[-1].images == (PICTURE,)  # type: ignore[union-attr]
    assert auxiliary_model(harness).requests == []

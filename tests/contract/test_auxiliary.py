"""What is asked beside the conversation: titles, pictures, with clients of its own."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.contract.conftest import Until, World
from tests.contract.voices import helper_of, small_world, with_auxiliary

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
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = small_world(tmp_path, auxiliary=AuxiliarySettings(model="helper"), window=0)
    await world.start()
    yield world
    await world.stop()


async def title(world: World) -> str:
    (session,) = await world.store.sessions(limit=10)
    return session.title


async def said(world: World, text: str, reply: str = "ok") -> None:
    world.model.say(reply)
    await world.end_of(await world.accept(text))


async def test_a_session_is_named_after_its_first_turn_and_no_turn_waits_for_it(
    world: World, until: Until
) -> None:
    await said(world, "how do I boil an egg, please?")
    await helper_of(world).wait_for_request(1)
    assert await title(world) == "how do I boil an egg, please?"
    await said(world, "and two?")
    helper_of(world).say('"Boiling eggs."')

    async def named() -> bool:
        return await title(world) == "Boiling eggs"

    await until(named)
    await said(world, "and three?")
    assert len(helper_of(world).requests) == 1


async def test_no_half_of_a_secret_is_in_a_title(world: World, until: Until) -> None:
    """A title is cut at its length: what is in it by half would not be known by its value."""
    secret = "sk-" + "s3cret" * 20
    await world.stop()
    world.secrets = [Secret(secret)]
    await world.start()
    await said(world, "what is this?")
    helper_of(world).say(f"The key {secret}")

    async def named() -> bool:
        return (await title(world)).startswith("The key")

    await until(named)
    assert await title(world) == "The key [redacted]"


async def test_what_a_title_takes_is_counted_apart_from_the_turn(
    world: World, until: Until
) -> None:
    world.model.say("ok")
    ended = await world.end_of(await world.accept("hello"))
    helper_of(world).say("A greeting")
    session_id = await world.only_session()

    async def counted() -> bool:
        return bool(await world.store.auxiliary_usage(session_id))

    await until(counted)
    assert ended.turn_id is not None
    turn = await world.store.turn(ended.turn_id)
    assert turn is not None
    assert turn.usage == ended.usage
    assert (await world.store.auxiliary_usage(session_id))[AuxiliaryTask.TITLE].input_tokens > 0


@pytest.mark.parametrize("line", ["", ModelFailed("no", fault=ModelFault.AUTH)])
async def test_where_no_title_comes_the_first_words_stay(
    world: World, until: Until, line: str | ModelFailed
) -> None:
    await said(world, "first words")
    helper_of(world).say(line)
    await until(lambda: helper_of(world).leased == 0)
    assert await title(world) == "first words"


async def test_a_title_that_its_owner_gave_is_kept(world: World, until: Until) -> None:
    await said(world, "first words")
    await helper_of(world).wait_for_request(1)
    await world.store.rename_session(await world.only_session(), "my own")
    helper_of(world).say("Another")
    await until(lambda: helper_of(world).leased == 0)
    assert await title(world) == "my own"


async def test_titles_can_be_turned_off(world: World) -> None:
    await world.stop()
    world.settings = with_auxiliary(world.settings, titles=False)
    await world.start()
    await said(world, "first words")
    await said(world, "more")
    assert helper_of(world).requests == []


@pytest.mark.parametrize(
    ("model", "auxiliary", "wanted"),
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
def test_a_title_is_asked_for_only_where_it_takes_nothing_from_anybody(
    model: ModelSettings, auxiliary: AuxiliarySettings, wanted: bool
) -> None:
    settings = Settings(model=model, auxiliary=auxiliary)
    made = AuxiliaryClient(settings, lease=ScriptedModel().lease, model="m")
    assert made.is_enabled(AuxiliaryTask.TITLE) is wanted


def test_the_demo_is_asked_for_nothing_beside() -> None:
    settings = Settings(model=ModelSettings(provider=Provider.DEMO))
    made = AuxiliaryClient(settings, lease=ScriptedModel().lease, model="demo")
    assert not any(made.is_enabled(errand) for errand in AuxiliaryTask)


async def test_a_session_that_ends_takes_its_auxiliary_client_with_it(
    world: World, until: Until
) -> None:
    """C9, A11: reaped with the session that is closed; that of another stays."""
    for chat in ("one", "two"):
        world.model.say("ok")
        await world.end_of(await world.accept(f"in {chat}", chat=chat))
    await helper_of(world).wait_for_request(2)
    assert helper_of(world).leased == 2
    await world.end_of(await world.accept("/new", chat="one"))
    await until(lambda: helper_of(world).leased == 1)
    helper_of(world).say("A title")
    await until(lambda: helper_of(world).leased == 0)


async def test_a_stop_closes_every_auxiliary_client(world: World) -> None:
    """C9: also those that are in the middle of a call; and no stop waits for one."""
    await said(world, "hello")
    await helper_of(world).wait_for_request(1)
    await world.stop()
    assert helper_of(world).leased == 0
    assert "close auxiliary clients" in world.states
    await world.start()


async def test_what_hangs_is_let_go_and_nothing_is_asked_after_closing() -> None:
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


async def test_ending_a_session_never_heard_of_is_fine() -> None:
    model = ScriptedModel()
    made = AuxiliaryClient(Settings(), lease=model.lease, model="m")
    asking = asyncio.create_task(
        made.ask(AuxiliaryTask.SUMMARY, REQUEST, session_id=SessionId("mine"))
    )
    await model.wait_for_request(1)
    await made.end_session(SessionId("another"))
    model.say("still here")
    assert (await asking).message.text == "still here"


async def blind(world: World) -> None:
    await world.stop()
    model = msgspec.structs.replace(world.settings.model, vision=VisionMode.NO)
    world.settings = msgspec.structs.replace(
        with_auxiliary(world.settings, titles=False), model=model
    )
    await world.start()


async def test_a_picture_is_described_once_for_a_model_that_cannot_see(world: World) -> None:
    await blind(world)
    helper_of(world).say("A red boat on a lake.")
    world.model.say("a boat!")
    ended = await world.end_of(await world.accept("what is this?", images=(PICTURE,)))
    assert ended.text == "a boat!"
    (looked,) = helper_of(world).requests
    assert looked.messages[-1].images == (PICTURE,)  # type: ignore[union-attr]
    transcript = await world.transcript(await world.only_session())
    assert [type(message) for message in transcript[:2]] == [UserMessage, NoteMessage]
    assert "A red boat on a lake." in transcript[1].text
    await world.stop()
    await world.start()
    await said(world, "and the colour?")
    shown = world.model.requests[-1].messages
    assert not any(isinstance(m, UserMessage) and m.images for m in shown)
    assert any("A red boat on a lake." in message.text for message in shown)
    assert len(helper_of(world).requests) == 1


async def test_a_picture_nobody_could_look_at_is_said_to_be_one(world: World) -> None:
    await blind(world)
    helper_of(world).say(ModelFailed("no", fault=ModelFault.BAD_REQUEST))
    world.model.say("I cannot see it")
    await world.end_of(await world.accept("what is this?", images=(PICTURE,)))
    (_, note, *_) = await world.transcript(await world.only_session())
    assert "nobody could look at" in note.text


async def test_a_model_that_sees_is_shown_the_picture_itself(world: World) -> None:
    await world.stop()
    world.settings = with_auxiliary(world.settings, titles=False)
    await world.start()
    world.model.say("nice")
    await world.end_of(await world.accept("look", images=(PICTURE,)))
    assert world.model.requests[-1].messages[-1].images == (PICTURE,)  # type: ignore[union-attr]
    assert helper_of(world).requests == []

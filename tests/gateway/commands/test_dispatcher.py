"""Commands never wait behind a turn, and their effect commits with the end of their row (G5)."""

import asyncio

import pytest
from tests.support.gateway_harness import Call, GatewayHarness
from tests.support.replies import last_reply, session_of

from holdfast.core.commands import (
    COMMANDS,
    COMMANDS_BY_NAME,
    CommandRequest,
    CommandSpec,
    CommandTopic,
    Permission,
    command_menu,
    parse_command,
    text_for_agent,
)
from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxState
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.ports.store_commands import AcceptMessage
from holdfast.core.ports.store_queries import GetInboxRow, GetRouteSession, GetTurn
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import TurnRowState
from holdfast.gateway.access import AccessPolicy
from holdfast.gateway.agents.cache import start_pacer
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.commands.context import allowed_commands
from holdfast.gateway.commands.dispatcher import CommandDispatcher
from holdfast.gateway.commands.reply import send_reply


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/help", ("help", "")),
        ("/Model gpt-5 ", ("model", "gpt-5")),
        ("/stop@holdfast_bot", ("stop", "")),
        ("/etc/passwd is a file", None),
        ("/ nothing", None),
        ("hello /help", None),
        ("/model\nname", ("model", "name")),
    ],
)
def test_commands_are_recognised(text: str, parsed: tuple[str, str] | None) -> None:
    assert parse_command(text) == parsed


async def test_help_lists_every_command(harness: GatewayHarness) -> None:
    text = (await harness.end_of(await harness.accept("/help"))).text
    shown = [line.split(" - ")[0] for line in text.splitlines() if line.startswith("/")]
    assert sorted(shown) == [f"/{spec.name}" for spec in COMMANDS]
    headings = [line for line in text.splitlines() if line.endswith(":")]
    assert headings == [f"{topic}:" for topic in CommandTopic]
    assert await harness.ledger() == {"answered": 1}


async def test_an_unknown_command_suggests_the_nearest(harness: GatewayHarness) -> None:
    harness.say("/stpo")
    assert "Did you mean /stop?" in (await harness.texts(1))[0]


async def test_stop_ends_the_turn_for_good(harness: GatewayHarness, call: Call) -> None:
    """F9, G5, H7: the turn is over in the commit that ends the command, and never resumed."""
    held_tool = harness.held_tools[ReplayClass.NEVER]
    held_tool.go.clear()
    harness.model.say([call("never")])
    accepted = await harness.accept("go")
    await held_tool.wait_until_started(1)
    stop = await harness.accept("/stop", busy_mode=BusyMode.QUEUE)
    assert (await harness.end_of(stop)).text == "Stopped."
    row = await harness.store.read(GetInboxRow(inbox_id=accepted.row.id))
    assert row is not None and row.state is InboxState.SUPERSEDED
    assert row.turn_id is not None
    turn = await harness.store.read(GetTurn(turn_id=row.turn_id))
    assert turn is not None and turn.state is TurnRowState.SUPERSEDED
    await harness.stop()
    await harness.start()
    assert await harness.ledger() == {"superseded": 1, "answered": 1}
    assert len(harness.model.requests) == 1


async def test_stop_drops_queued_messages(harness: GatewayHarness) -> None:
    """G3: messages that were queued end as superseded, not silently."""
    await harness.accept("one", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    waiting = await harness.accept("two", busy_mode=BusyMode.QUEUE)
    await harness.end_of(await harness.accept("/stop"))
    assert (await harness.end_of(waiting)).state is InboxState.SUPERSEDED
    assert await harness.ledger() == {"superseded": 2, "answered": 1}


async def test_stop_with_nothing_running_says_so(harness: GatewayHarness) -> None:
    harness.say("/stop")
    assert await harness.texts(1) == ["Nothing is running."]


async def test_a_session_goes_on_after_stop(harness: GatewayHarness) -> None:
    """F9: the conversation stays."""
    await harness.accept("remember red")
    await harness.model.wait_for_request(1)
    await harness.end_of(await harness.accept("/stop"))
    harness.model.say("red")
    ended = await harness.end_of(await harness.accept("what was it?"))
    assert ended.text == "red"
    assert [m.text for m in harness.model.requests[1].messages] == ["remember red", "what was it?"]


async def test_new_begins_another_conversation(harness: GatewayHarness) -> None:
    """G5, A11: a fresh session id; the runner of the old one is ended, its history kept."""
    harness.model.say("hello", "who?")
    first = await harness.end_of(await harness.accept("I am Ann"))
    await harness.end_of(await harness.accept("/new"))
    second = await harness.end_of(await harness.accept("who am I?"))
    assert first.session_id != second.session_id
    assert [m.text for m in harness.model.requests[1].messages] == ["who am I?"]
    assert harness.runners.ended == [first.session_id]
    assert len(await harness.transcript(session_of(first))) == 2


async def test_a_message_right_after_new_belongs_to_the_new_session(
    harness: GatewayHarness,
) -> None:
    """G4: bound at admission, one at a time per route, in the order of acceptance."""
    harness.model.say("hello", "fresh")
    first = await harness.end_of(await harness.accept("one"))
    asked = await asyncio.gather(harness.accept("/new"), harness.accept("two"))
    ended = await harness.end_of(asked[1])
    assert ended.session_id != first.session_id
    row = await harness.store.read(GetRouteSession(key=asked[1].row.route))
    assert row == ended.session_id


async def test_new_supersedes_the_running_turn_and_queued_messages(harness: GatewayHarness) -> None:
    """G4: /new ends earlier unstarted rows as superseded."""
    running = await harness.accept("one", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    waiting = await harness.accept("two", busy_mode=BusyMode.QUEUE)
    await harness.end_of(await harness.accept("/new"))
    for accepted in (running, waiting):
        assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    assert await harness.ledger() == {"superseded": 2, "answered": 1}


async def test_a_model_is_shown_chosen_and_saved(harness: GatewayHarness) -> None:
    """J5, A5: the override survives a restart and reaches the next message's model."""
    harness.model.say("hi", "hi", "hi")
    await harness.end_of(await harness.accept("hello"))
    shown = await harness.end_of(await harness.accept("/model"))
    assert shown.text == "The model is scripted (local): a test."
    await harness.end_of(await harness.accept("/model other-model"))
    ended = await harness.end_of(await harness.accept("hello"))
    assert (await last_reply(harness, ended)).model == "other-model"
    await harness.stop()
    await harness.start()
    ended = await harness.end_of(await harness.accept("hello"))
    assert (await last_reply(harness, ended)).model == "other-model"
    await harness.end_of(await harness.accept("/model default"))
    harness.model.say("hi")
    ended = await harness.end_of(await harness.accept("hello"))
    assert (await last_reply(harness, ended)).model == "scripted"


async def test_model_before_the_first_message_counts(harness: GatewayHarness) -> None:
    await harness.end_of(await harness.accept("/model early"))
    harness.model.say("hi")
    ended = await harness.end_of(await harness.accept("hello"))
    assert (await last_reply(harness, ended)).model == "early"


async def test_status_answers_while_a_turn_runs(harness: GatewayHarness) -> None:
    """Commands do not wait behind a turn."""
    await harness.accept("work", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    ended = await harness.end_of(await harness.accept("/status", busy_mode=BusyMode.QUEUE))
    assert "running" in ended.text


async def test_status_names_the_model_that_was_chosen_here(harness: GatewayHarness) -> None:
    await harness.end_of(await harness.accept("/model other"))
    ended = await harness.end_of(await harness.accept("/status"))
    assert "Model: other (chosen here)" in ended.text


async def test_a_stop_from_before_this_start_is_not_carried_out(harness: GatewayHarness) -> None:
    """G5: a /stop that a process accepted and did not execute stops nothing after a restart."""
    work = await harness.accept("work", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    source = work.row.inbound.source
    stop = Inbound(source=source, event_id="late", message_id="late", text="/stop")
    harness.gateway.intake.close()  # it is in the store, and not carried out by this process
    accepted_row = await harness.store.write(
        AcceptMessage(inbound=stop, route=work.row.route, principal=PrincipalId("api"), at=1.0)
    )
    await harness.die()
    harness.model.say("worked")
    await harness.start()
    assert (await harness.end_of(work)).text == "worked"
    assert (await harness.end_of(accepted_row)).state is InboxState.SUPERSEDED


async def test_slash_text_without_commands_is_just_text(harness: GatewayHarness) -> None:
    harness.model.say("that is a command elsewhere")
    ended = await harness.end_of(await harness.accept("/help", commands=False))
    assert ended.text == "that is a command elsewhere"


def test_the_table_is_in_order_and_each_name_is_given_once() -> None:
    names = [spec.name for spec in COMMANDS]
    assert names == sorted(names)
    assert len(COMMANDS_BY_NAME) == sum(1 + len(spec.aliases) for spec in COMMANDS)
    assert all(parse_command(f"/{name}") == (name, "") for name in COMMANDS_BY_NAME)


async def test_a_running_gateway_carries_out_every_row_of_the_table(
    harness: GatewayHarness,
) -> None:
    """Names, help, arguments and permissions are in one table, and each row has a command."""
    assert harness.gateway.dispatcher.available() == list(COMMANDS)


async def test_every_command_answers_at_once_while_a_turn_runs(harness: GatewayHarness) -> None:
    """Commands do not wait for a turn; those that cannot run mid-turn say so."""
    await harness.accept("work", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    for spec in COMMANDS:
        if spec.name in ("new", "stop") or not spec.argument_problem(""):
            continue  # they end the turn, or need no argument
        reply = await harness.end_of(await harness.accept(f"/{spec.name}"))
        assert spec.usage in reply.text
    for spec in (spec for spec in COMMANDS if not spec.allowed_mid_turn):
        reply = await harness.end_of(await harness.accept(f"/{spec.name}"))
        assert reply.text.startswith(f"/{spec.name} is not possible while the agent is working")
    assert len(harness.model.requests) == 1


@pytest.mark.parametrize("slow", ["/usage", "/model default", "/sessions", "/title Tea"])
async def test_new_does_not_overtake_a_command_that_came_before_it(
    harness: GatewayHarness, slow: str
) -> None:
    """G3: a command that still reads when /new commits is answered, and not superseded."""
    harness.model.say("hello")
    await harness.end_of(await harness.accept("hi"))
    accepted = await asyncio.gather(harness.accept(slow), harness.accept("/new"))
    ends = [await harness.end_of(each) for each in accepted]
    assert [end.state for end in ends] == [InboxState.ANSWERED, InboxState.ANSWERED]


async def test_help_says_more_about_one_command(harness: GatewayHarness) -> None:
    reply = await harness.end_of(await harness.accept("/help /reset"))
    assert reply.text == ("/new - start a new conversation; the old one is kept\nAlso: /reset")
    reply = await harness.end_of(await harness.accept("/help nothing"))
    assert "There is no command 'nothing'" in reply.text


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("/status now", "/status takes no argument. Usage: /status"),
        ("/queue", "/queue needs an argument. Usage: /queue TEXT"),
        ("/reste", "Did you mean /reset?"),
        ("/xyzzy", "There is no command /xyzzy. /help lists the commands."),
    ],
)
async def test_a_misused_command_shows_its_usage(
    harness: GatewayHarness, text: str, reply: str
) -> None:
    assert reply in (await harness.end_of(await harness.accept(text))).text


async def test_stop_accepts_any_text_after_it(harness: GatewayHarness) -> None:
    reply = await harness.end_of(await harness.accept("/stop please"))
    assert reply.text == "Nothing is running."


async def test_operator_commands_are_refused_to_everyone_else(
    harness: GatewayHarness,
) -> None:
    """Law 12: one check for every entry; the refusal names the key, and "*" matches no operator."""
    gateway = harness.gateway
    simulated = PlatformSettings(allow=("ann",), operators=("bob", "*"))
    spec = CommandSpec(name="reload", help="x", permission=Permission.OPERATE)
    access = AccessPolicy(Settings(platforms={"simulated": simulated}))
    replies = gateway.reply_context

    async def cmd_reload(request: CommandRequest) -> None:
        await send_reply(replies, request.row, "carried out")

    dispatcher = CommandDispatcher(
        replies,
        gateway.lanes,
        access=access,
        tasks=gateway.task_group.tasks,
        turn_starts=start_pacer(),
        languages=ChatLanguages(gateway.live_settings),
        load=lambda: {"reload": cmd_reload},
        specs=[spec],
    )

    gateway.intake.close()  # only the dispatcher of this test gets the messages

    async def reply(platform: str, user: str) -> str:
        source = Source(platform=platform, chat_id=user, user_id=user)
        row = Inbound(source=source, event_id=user, message_id=user, text="/reload")
        accepted_row = await harness.store.write(
            AcceptMessage(
                inbound=row, route=build_session_key(source), principal=PrincipalId(user), at=1.0
            )
        )
        gateway.subscriptions.open(accepted_row.row.id)
        assert dispatcher.dispatch(accepted_row)
        return str((await harness.end_of(accepted_row)).text)

    assert "platforms.simulated.operators" in await reply("simulated", "ann")
    assert await reply("simulated", "bob") == "carried out"
    assert await reply("api", "owner") == "carried out"
    ann, bob = (Source(platform="simulated", chat_id="c", user_id=u) for u in ("ann", "bob"))
    available = dispatcher.available()
    assert allowed_commands(available, access, ann) == []
    assert allowed_commands(available, access, bob) == [spec]


def test_menus_show_the_commands_that_every_user_may_give() -> None:
    shown = command_menu()
    talk = [spec for spec in COMMANDS if spec.permission is Permission.TALK]
    assert [(entry.name, entry.help) for entry in shown] == [(s.name, s.help) for s in talk]
    assert all(entry.name.isidentifier() and len(entry.help) <= 256 for entry in shown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "hello"),
        ("/etc/hosts", "/etc/hosts"),
        ("/queue  two words", "two words"),
        ("/q two", "two"),
        ("/steer left", "left"),
        ("/steer", None),
        ("/new", None),
        ("/nothing like it", None),
    ],
)
def test_the_text_for_the_agent_is_extracted_from_a_message(
    text: str, expected: str | None
) -> None:
    """So that a terminal knows which text it will find in the conversation."""
    assert text_for_agent(text) == expected

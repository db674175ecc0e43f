"""Law 12: one question for every entry, each in a table with the role that it takes. The tests are
made of the tables; an entry that is not in one fails."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_harness import Clock, GatewayHarness

from holdfast.agent.memory.notes import Notes
from holdfast.core.config.settings import ChatSettings, PlatformSettings, SendSettings, Settings
from holdfast.core.errors import NotAllowed
from holdfast.core.ids import ApprovalId, CallId, DeliveryId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.people.approval import OPERATOR, REQUESTER, Approval
from holdfast.core.people.commands import COMMANDS, COMMANDS_BY_NAME, parse_command_word
from holdfast.gateway.approvals.prompt import approval_buttons
from holdfast.gateway.inbound.access import (
    AccessPolicy,
    Action,
    OwnedResource,
    Role,
    SendTarget,
    principal_of,
)
from holdfast.gateway.redaction import Redaction
from holdfast.service.toolsets import ToolsetBuilder

# Whoever adds a command says here who may give it.
COMMANDS_FOR = {
    **dict.fromkeys(("pairing", "restart", "sethome"), Role.OPERATOR),
    **dict.fromkeys(
        (
            "approvals",
            "approve",
            "background",
            "busy",
            "compact",
            "cron",
            "deny",
            "fork",
            "help",
            "memory",
            "model",
            "new",
            "queue",
            "quiet",
            "resume",
            "retry",
            "search",
            "sessions",
            "status",
            "steer",
            "stop",
            "title",
            "undo",
            "usage",
        ),
        Role.USER,
    ),
}

IN_SESSION = "it reaches nothing but the sandbox of its session, and what the network has"
OWN = "it acts for the person whose message the turn works for, and reaches what is theirs"
ASKS = "it asks `AccessPolicy` for that person"

# Whoever adds a tool says here by what right it does what it does.
TOOLS_BY = {
    **dict.fromkeys(
        ("terminal", "process", "read", "write", "edit", "search", "todo", "fetch", "browser"),
        IN_SESSION,
    ),
    **dict.fromkeys(("session_search", "memory", "delegate", "send_file"), OWN),
    **dict.fromkeys(("schedule", "send_message"), ASKS),
}

PEOPLE = {
    Role.UNKNOWN: "eve",
    Role.USER: "bob",
    Role.OPERATOR: "ann",
}


def at(user: str, *, chat: str = "", platform: str = "simulated", **more: Any) -> Source:
    return Source(platform=platform, chat_id=chat or f"chat of {user}", user_id=user, **more)


SETTINGS = Settings(
    platforms={
        "simulated": PlatformSettings(
            allow=("bob",),
            operators=("ann",),
            pairing=False,
            chats={"open": ChatSettings(allow=("*",)), "few": ChatSettings(allow=("eve",))},
            accounts={"work": PlatformSettings(allow=("*",), operators=("*", "zoe"))},
        )
    },
    send=SendSettings(allow=("simulated:named",)),
)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.settings = SETTINGS
    await harness.start()
    yield harness
    await harness.stop()


def test_every_command_is_in_the_table() -> None:
    assert {spec.name for spec in COMMANDS} == set(COMMANDS_FOR)


async def test_each_command_needs_its_role(
    house: GatewayHarness,
) -> None:
    """Over the whole way in: a stranger is turned away at the door, and a user at the desk."""
    numbers = itertools.count()

    async def told(name: str, user: str, **place: Any) -> str | None:
        number = str(next(numbers))
        source = at(user, chat=number, **place)
        said = Inbound(source=source, event_id=number, message_id=number, text=f"/{name}")
        try:
            accepted = await house.gateway.intake.accept(said)
        except NotAllowed:
            return None
        return str((await house.end_of(accepted)).text)

    async def check(name: str) -> None:
        assert await told(name, PEOPLE[Role.UNKNOWN]) is None, name
        refused = await told(name, PEOPLE[Role.USER])
        assert refused is not None and ("may not" in refused) is (
            COMMANDS_FOR[name] is Role.OPERATOR
        ), name
        for allowed in (
            await told(name, PEOPLE[Role.OPERATOR]),
            await told(name, "owner", platform="api"),
        ):
            assert allowed is not None and "may not" not in allowed, name

    await asyncio.gather(*map(check, COMMANDS_FOR))


def test_buttons_and_plain_words_map_to_commands_of_the_table() -> None:
    """A button hands in a text, and a plain word stands for one: they pass the same desk."""
    both = [[approval("one", "rule")], [approval("one", ""), approval("two", "rule")]]
    said = [choice.value for asked in both for choice in approval_buttons(asked)]
    words = [
        name for word in ("yes", "no", "always", "session") if (name := parse_command_word(word))
    ]
    names = [match[1] for text in said if (match := re.match(r"/(\w+)", text))]
    assert len(said) == len(names) > 4
    assert {*names, *(name for name, _ in words)} <= set(COMMANDS_BY_NAME)


def approval(name: str, rule: str, *, approvers: Iterable[str] = ()) -> Approval:
    return Approval(
        id=ApprovalId(name),
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        call_id=CallId(name),
        asked_in=SessionId("s"),
        number=1,
        tool="terminal",
        command="x",
        rule=rule,
        why="x",
        requester=PrincipalId("simulated:default:bob"),
        approvers=tuple(map(PrincipalId, approvers)),
        delivery_id=DeliveryId("d"),
        asked_at=0.0,
        deadline=1.0,
    )


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("named", [True, False])
async def test_an_approval_is_answered_by_those_it_names_and_by_operators(
    house: GatewayHarness, role: Role, named: bool
) -> None:
    """To be named lets nobody in: a stranger among the approvers is still one."""
    user = PEOPLE[role]
    asked = approval("one", "", approvers=[f"simulated:default:{user}"] if named else [REQUESTER])
    may = house.gateway.approvals.may_answer(asked, at(user))
    assert may is (role is Role.OPERATOR or (named and role is Role.USER))


NEEDS = {Action.TALK: Role.USER, Action.COMMAND: Role.USER, Action.OPERATE: Role.OPERATOR}
_ORDER = list(Role)


@pytest.mark.parametrize(("action", "role"), list(itertools.product(Action, Role)))
def test_each_action_needs_its_role(action: Action, role: Role) -> None:
    authority, place = AccessPolicy(SETTINGS), at(PEOPLE[role])
    who = principal_of(place)
    if action is Action.DECIDE:
        expected = {True: role is not Role.UNKNOWN, False: role is Role.OPERATOR}
        for own, allowed in expected.items():
            thing = OwnedResource(source=place, owners=(who.id if own else OPERATOR,))
            assert authority.allows(who, action, thing) is allowed
        assert authority.allows(who, action, place) is (role is Role.OPERATOR)
    elif action is Action.SEND:
        for chat, near in (("named", False), ("other", True), ("other", False)):
            to = Address(platform="simulated", account="default", chat_id=chat)
            there = SendTarget(source=place, to=to, is_own_or_home=near)
            allowed = role is not Role.UNKNOWN and (near or chat == "named")
            assert authority.allows(who, action, there) is allowed
    else:
        allowed = _ORDER.index(role) >= _ORDER.index(NEEDS[action])
        assert authority.allows(who, action, place) is allowed


@pytest.mark.parametrize(
    ("place", "role"),
    [
        (at("eve"), Role.UNKNOWN),
        (at("eve", chat="open", chat_type=ChatType.GROUP), Role.USER),
        (at("eve", chat="few"), Role.USER),
        (at("mallory", chat="few"), Role.UNKNOWN),
        (at("ann", chat="open"), Role.OPERATOR),
        (at("eve", chat="open", account="work"), Role.USER),
        (at("ann", account="work"), Role.USER),
        (at("zoe", account="work"), Role.OPERATOR),
        (at("zoe"), Role.UNKNOWN),
        (at("*", account="work"), Role.USER),
        (at("ann", account="other"), Role.UNKNOWN),
        (at("ann", platform="elsewhere"), Role.UNKNOWN),
        (at("anybody", platform="api"), Role.OPERATOR),
        (at("paula"), Role.USER),
        (at("paula", account="other"), Role.UNKNOWN),
    ],
)
def test_a_role_holds_for_one_account_and_one_chat(place: Source, role: Role) -> None:
    """Nothing is inherited: not by another account, not by another chat, not by everybody."""
    authority = AccessPolicy(SETTINGS, paired={PrincipalId("simulated:default:paula")})
    assert authority.role(principal_of(place), place) is role


def test_a_refusal_names_the_key_that_would_allow_it() -> None:
    authority = AccessPolicy(SETTINGS)
    for place, action, key in (
        (at("eve"), Action.TALK, "platforms.simulated.allow"),
        (at("bob"), Action.OPERATE, "platforms.simulated.operators"),
        (at("bob", account="work"), Action.OPERATE, "platforms.simulated.accounts.work.operators"),
    ):
        with pytest.raises(NotAllowed, match=re.escape(key)):
            authority.authorise(principal_of(place), action, place)


async def test_every_tool_is_in_the_table(house: GatewayHarness, tmp_path: Path) -> None:
    """An agent can do no more than the person it works for: each tool says by what right."""
    notes = Notes(house.store, clock=Clock(), redact=Redaction([]), max_chars=1000)
    every = Settings()
    shop = ToolsetBuilder(
        every.browser, home=tmp_path, store=house.store, notes=notes, clock=Clock()
    )
    toolbox = shop.build_toolbox(every, sends=True, sends_files=True)
    assert {schema.name for schema in toolbox.schemas} | {"browser"} == set(TOOLS_BY)

"""Law 12: one access check for every entry point, each in a table with the role that it needs. An
entry point that is in no table fails a test."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_harness import GatewayHarness, WallClock

from holdfast.agent.memory.notes import Notes
from holdfast.core.commands import COMMANDS, COMMANDS_BY_NAME, parse_command_word
from holdfast.core.config.settings import ChatSettings, PlatformSettings, SendSettings, Settings
from holdfast.core.errors import NotAllowed
from holdfast.core.ids import ApprovalId, CallId, DeliveryId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.people.approval import OPERATOR, REQUESTER, Approval
from holdfast.gateway.access import (
    AccessPolicy,
    Action,
    OwnedResource,
    Role,
    SendTarget,
    principal_of,
)
from holdfast.gateway.approvals.prompt import approval_buttons
from holdfast.gateway.redaction import Redaction
from holdfast.service.agent_config import ToolsetBuilder
from holdfast.system.egress import EgressPolicy

# A new command is listed here with the role that it needs.
ROLE_OF_COMMAND = {
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

WITHIN_SESSION = "it reaches only the sandbox of its session and the network"
OWN_DATA = "it acts for the user of the turn, and reaches only their data"
BY_POLICY = "it checks `AccessPolicy` for that user"

# A new tool is listed here with the reason why it may do what it does.
RIGHT_OF_TOOL = {
    **dict.fromkeys(
        ("terminal", "process", "read", "write", "edit", "search", "todo", "fetch", "browser"),
        WITHIN_SESSION,
    ),
    **dict.fromkeys(("session_search", "memory", "delegate", "send_file"), OWN_DATA),
    **dict.fromkeys(("schedule", "send_message"), BY_POLICY),
}

PEOPLE = {
    Role.UNKNOWN: "eve",
    Role.USER: "bob",
    Role.OPERATOR: "ann",
}


def source_of(user: str, *, chat: str = "", platform: str = "simulated", **more: Any) -> Source:
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
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.settings = SETTINGS
    await harness.start()
    yield harness
    await harness.stop()


def test_every_command_is_in_the_table() -> None:
    assert {spec.name for spec in COMMANDS} == set(ROLE_OF_COMMAND)


async def test_each_command_needs_its_role(
    harness: GatewayHarness,
) -> None:
    """Through the whole path: intake refuses an unknown sender, and the dispatcher a user."""
    numbers = itertools.count()

    async def reply_to(name: str, user: str, **where: Any) -> str | None:
        number = str(next(numbers))
        source = source_of(user, chat=number, **where)
        message = Inbound(source=source, event_id=number, message_id=number, text=f"/{name}")
        try:
            accepted = await harness.gateway.intake.accept(message)
        except NotAllowed:
            return None
        return str((await harness.end_of(accepted)).text)

    async def check(name: str) -> None:
        assert await reply_to(name, PEOPLE[Role.UNKNOWN]) is None, name
        refused = await reply_to(name, PEOPLE[Role.USER])
        assert refused is not None and ("may not" in refused) is (
            ROLE_OF_COMMAND[name] is Role.OPERATOR
        ), name
        for allowed in (
            await reply_to(name, PEOPLE[Role.OPERATOR]),
            await reply_to(name, "owner", platform="api"),
        ):
            assert allowed is not None and "may not" not in allowed, name

    await asyncio.gather(*map(check, ROLE_OF_COMMAND))


def test_buttons_and_plain_words_map_to_commands_of_the_table() -> None:
    """A button sends a command, and a plain word stands for one: both use the same dispatcher."""
    both = [[approval("one", "rule")], [approval("one", ""), approval("two", "rule")]]
    buttons = [choice.value for asked in both for choice in approval_buttons(asked)]
    words = [
        name for word in ("yes", "no", "always", "session") if (name := parse_command_word(word))
    ]
    names = [match[1] for text in buttons if (match := re.match(r"/(\w+)", text))]
    assert len(buttons) == len(names) > 4
    assert {*names, *(name for name, _ in words)} <= set(COMMANDS_BY_NAME)


def approval(name: str, rule: str, *, why: str = "x", approvers: Iterable[str] = ()) -> Approval:
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
        why=why,
        requester=PrincipalId("simulated:default:bob"),
        approvers=tuple(map(PrincipalId, approvers)),
        delivery_id=DeliveryId("d"),
        asked_at=0.0,
        deadline=1.0,
    )


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("named", [True, False])
async def test_an_approval_is_answered_by_those_it_names_and_by_operators(
    harness: GatewayHarness, role: Role, named: bool
) -> None:
    """An unknown sender stays unknown although the approval names them."""
    user = PEOPLE[role]
    asked = approval("one", "", approvers=[f"simulated:default:{user}"] if named else [REQUESTER])
    allowed = harness.gateway.approvals.may_answer(asked, source_of(user))
    assert allowed is (role is Role.OPERATOR or (named and role is Role.USER))


MIN_ROLE = {
    Action.TALK: Role.USER,
    Action.COMMAND: Role.USER,
    Action.OPERATE: Role.OPERATOR,
    Action.READ: Role.OPERATOR,
    Action.MANAGE: Role.OPERATOR,
}
_ORDER = list(Role)


@pytest.mark.parametrize(("action", "role"), list(itertools.product(Action, Role)))
def test_each_action_needs_its_role(action: Action, role: Role) -> None:
    policy, source = AccessPolicy(SETTINGS), source_of(PEOPLE[role])
    principal = principal_of(source)
    if action is Action.DECIDE:
        expected = {True: role is not Role.UNKNOWN, False: role is Role.OPERATOR}
        for own, allowed in expected.items():
            thing = OwnedResource(source=source, owners=(principal.id if own else OPERATOR,))
            assert policy.allows(principal, action, thing) is allowed
        assert policy.allows(principal, action, source) is (role is Role.OPERATOR)
    elif action is Action.SEND:
        for chat, near in (("named", False), ("other", True), ("other", False)):
            to = Address(platform="simulated", account="default", chat_id=chat)
            there = SendTarget(source=source, to=to, is_own_or_home=near)
            allowed = role is not Role.UNKNOWN and (near or chat == "named")
            assert policy.allows(principal, action, there) is allowed
    else:
        allowed = _ORDER.index(role) >= _ORDER.index(MIN_ROLE[action])
        assert policy.allows(principal, action, source) is allowed


@pytest.mark.parametrize(
    ("source", "role"),
    [
        (source_of("eve"), Role.UNKNOWN),
        (source_of("eve", chat="open", chat_type=ChatType.GROUP), Role.USER),
        (source_of("eve", chat="few"), Role.USER),
        (source_of("mallory", chat="few"), Role.UNKNOWN),
        (source_of("ann", chat="open"), Role.OPERATOR),
        (source_of("eve", chat="open", account="work"), Role.USER),
        (source_of("ann", account="work"), Role.USER),
        (source_of("zoe", account="work"), Role.OPERATOR),
        (source_of("zoe"), Role.UNKNOWN),
        (source_of("*", account="work"), Role.USER),
        (source_of("ann", account="other"), Role.UNKNOWN),
        (source_of("ann", platform="elsewhere"), Role.UNKNOWN),
        (source_of("anybody", platform="api"), Role.OPERATOR),
        (source_of("paula"), Role.USER),
        (source_of("paula", account="other"), Role.UNKNOWN),
    ],
)
def test_a_role_holds_for_one_account_and_one_chat(source: Source, role: Role) -> None:
    """Nothing is inherited by another account or chat, and `*` makes no operator."""
    policy = AccessPolicy(SETTINGS, paired={PrincipalId("simulated:default:paula")})
    assert policy.role(principal_of(source), source) is role


def test_a_refusal_names_the_key_that_would_allow_it() -> None:
    policy = AccessPolicy(SETTINGS)
    for source, action, key in (
        (source_of("eve"), Action.TALK, "platforms.simulated.allow"),
        (source_of("bob"), Action.OPERATE, "platforms.simulated.operators"),
        (
            source_of("bob", account="work"),
            Action.OPERATE,
            "platforms.simulated.accounts.work.operators",
        ),
    ):
        with pytest.raises(NotAllowed, match=re.escape(key)):
            policy.authorise(principal_of(source), action, source)


async def test_every_tool_is_in_the_table(harness: GatewayHarness, tmp_path: Path) -> None:
    """An agent can do no more than its user: each tool is listed with the reason."""
    notes = Notes(harness.store, clock=WallClock(), redact=Redaction([]), max_chars=1000)
    every = Settings()
    builder = ToolsetBuilder(
        every.browser,
        home=tmp_path,
        store=harness.store,
        notes=notes,
        clock=WallClock(),
        egress=EgressPolicy,
    )
    toolbox = builder.build_toolbox(every, sends=True, sends_files=True)
    assert {schema.name for schema in toolbox.schemas} | {"browser"} == set(RIGHT_OF_TOOL)

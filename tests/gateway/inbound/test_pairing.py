"""Pairing: people nobody knows get a code in a chat of two, and are let in by whoever operates."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, ManualClock
from tests.support.pairing import code_in, given_code
from tests.support.store_file import open_read_only

from holdfast.core.config.settings import ChatSettings, PlatformSettings, Settings
from holdfast.core.errors import NotAllowed
from holdfast.core.messages.inbox import Inbound, InboxState
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.pairing import (
    CODE_ALPHABET,
    CODE_LIFETIME,
    LOCKOUT_SECONDS,
    MAX_PENDING,
    MAX_WRONG_CODES,
    NEW_CODE_AFTER,
)
from holdfast.gateway.inbound.pairing import (
    WELCOME_TEXT,
    PairingRefused,
    code_matches,
    format_code,
    hash_code,
    new_code,
    parse_code,
)
from holdfast.testing.simulated.events import Faults

WRONG = "AAAA-AAAA"


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A gateway that ann operates and bob may talk to, on a clock that stands still."""
    harness = GatewayHarness(tmp_path / "state.db")
    account = PlatformSettings(
        operators=("ann",), allow=("bob",), chats={"open": ChatSettings(allow=("*",))}
    )
    harness.settings = Settings(platforms={"simulated": account})
    harness.clock = ManualClock()
    await harness.start()
    yield harness
    await harness.stop()


def later(door: GatewayHarness, seconds: float) -> None:
    assert isinstance(door.clock, ManualClock)
    door.clock.at += seconds


async def quiet(door: GatewayHarness) -> int:
    """How much was sent once all that was said is taken: bob's word comes after it."""
    before = len(door.service.sent)
    door.model.say("yes")
    door.say("still there?", chat="bob", user="bob")
    await door.sent(before + 1)
    return before


async def test_an_unknown_sender_gets_a_code_and_is_paired_by_it(door: GatewayHarness) -> None:
    """G3: what they wrote is refused and kept nowhere; once let in they are told, and talk."""
    code = await given_code(door)
    assert await door.ledger() == {"refused": 1}
    (request,) = door.gateway.pairing.pending()
    assert (request.user_id, request.user_name) == ("eve", "Eve")
    decided = await door.gateway.pairing.approve(code.lower().replace("-", " "), by=OPERATOR)
    assert "Eve (simulated:default:eve) is let in" in decided.text
    told = (await door.sent(2))[-1]
    assert (told.outgoing.chat_id, told.text) == ("eve", WELCOME_TEXT)
    door.model.say("welcome")
    door.say("hello", chat="eve", user="eve")
    assert (await door.texts(3))[-1] == "welcome"
    assert await door.ledger() == {"refused": 1, "answered": 1}


async def test_neither_the_message_nor_the_code_is_stored(door: GatewayHarness) -> None:
    """The store has a salted hash; the words of the delivery are forgotten once it is sent."""
    code = await given_code(door)
    await asyncio.wait_for(door.gateway.outbox.flush(), 10)
    with open_read_only(door.path) as cursor:
        tables = [name for (name,) in cursor.execute("SELECT name FROM sqlite_schema").fetchall()]
        rows = [
            str(cursor.execute(f"SELECT * FROM {name}").fetchall())
            for name in ("inbox", "outbox", "pairing_requests", "principals", "messages")
        ]
        ((state, text),) = cursor.execute("SELECT state, text FROM outbox").fetchall()
    assert {"pairing_requests", "principals", "pairing_tries"} <= set(tables)
    assert not any(code in row or code.replace("-", "") in row or "mackerel" in row for row in rows)
    assert (state, text) == (DeliveryState.SENT, "")


async def test_a_request_and_its_code_survive_a_crash(door: GatewayHarness) -> None:
    """G5: what was committed is sent by the successor, counts there, and is told once."""
    door.service.set_faults(Faults(floods=1 << 20, retry_after=3600.0))
    door.say("hi", chat="eve", user="eve")
    while not door.gateway.pairing.pending():
        await asyncio.sleep(0.01)
    await door.die()
    door.service.set_faults(Faults())
    await door.start()
    code = code_in((await door.sent(1))[-1])
    await door.gateway.pairing.approve(code, by=OPERATOR)
    await door.sent(2)
    await asyncio.wait_for(door.gateway.outbox.flush(), 10)  # its receipt is kept, too
    await door.die()
    await door.start()
    door.model.say("welcome back")
    door.say("it is me", chat="eve", user="eve")
    assert (await door.texts(3))[-2:] == [WELCOME_TEXT, "welcome back"]


async def test_groups_and_bots_get_no_code(door: GatewayHarness) -> None:
    door.say("hello?", chat="club", user="eve", chat_type=ChatType.GROUP)
    door.say("beep", chat="bot", user="robot", author=Author.BOT)
    assert await quiet(door) == 0
    assert not door.gateway.pairing.pending()
    assert await door.ledger() == {"answered": 1}


async def test_a_second_request_gets_no_new_code_at_once(door: GatewayHarness) -> None:
    """One message in ten minutes, and the newest code is the one that counts."""
    first = await given_code(door)
    door.say("hello? hello?", chat="eve", user="eve")
    assert await quiet(door) == 1
    later(door, NEW_CODE_AFTER)
    second = await given_code(door, sent=3)
    assert (await door.gateway.pairing.approve(first, by=OPERATOR)).wrong
    assert not (await door.gateway.pairing.approve(second, by=OPERATOR)).wrong


async def test_the_number_of_pending_requests_of_an_account_is_limited(
    door: GatewayHarness,
) -> None:
    for number in range(MAX_PENDING):
        await given_code(door, f"eve{number}", sent=number + 1)
    door.say("me too", chat="mallory", user="mallory")
    assert await quiet(door) == MAX_PENDING
    later(door, CODE_LIFETIME)
    await given_code(door, "mallory", sent=MAX_PENDING + 2)
    assert [each.user_id for each in door.gateway.pairing.pending()] == ["mallory"]


async def test_a_code_expires_after_an_hour(door: GatewayHarness) -> None:
    code = await given_code(door)
    later(door, CODE_LIFETIME)
    assert (await door.gateway.pairing.approve(code, by=OPERATOR)).wrong


async def test_five_wrong_codes_lock_pairing_for_an_hour_also_across_a_crash(
    door: GatewayHarness,
) -> None:
    code = await given_code(door)
    pairing = door.gateway.pairing
    tried = await asyncio.gather(
        *(pairing.approve(WRONG, by=OPERATOR) for _ in range(MAX_WRONG_CODES))
    )
    assert all(each.wrong for each in tried)
    assert "for an hour" in tried[-1].text
    await door.die()
    await door.start()
    with pytest.raises(PairingRefused, match="60 more minutes"):
        await door.gateway.pairing.approve(code, by=OPERATOR)
    later(door, LOCKOUT_SECONDS - 1)
    with pytest.raises(PairingRefused, match="1 more minute:"):
        await door.gateway.pairing.approve(code, by=OPERATOR)
    later(door, 1)
    fresh = await given_code(door, sent=2)
    assert not (await door.gateway.pairing.approve(fresh, by=OPERATOR)).wrong


async def test_a_clock_that_was_a_year_ahead_causes_no_year_long_lockout(
    door: GatewayHarness,
) -> None:
    """Neither by wrong codes nor by requests that would be pending all the while."""
    year = 365 * 86400.0
    later(door, year)
    for number in range(MAX_PENDING):
        await given_code(door, f"eve{number}", sent=number + 1)
    for _ in range(MAX_WRONG_CODES):
        await door.gateway.pairing.approve(WRONG, by=OPERATOR)
    assert door.gateway.pairing.locked_until() is not None
    later(door, -year)
    assert door.gateway.pairing.pending() == []
    code = await given_code(door, sent=MAX_PENDING + 1)
    decided = await door.gateway.pairing.approve(code, by=OPERATOR)
    assert not decided.wrong


async def test_a_right_code_clears_the_wrong_ones(door: GatewayHarness) -> None:
    code = await given_code(door)
    pairing = door.gateway.pairing
    for _ in range(MAX_WRONG_CODES - 1):
        assert (await pairing.approve("not a code at all", by=OPERATOR)).wrong
    await pairing.approve(code, by=OPERATOR)
    assert (await pairing.approve(WRONG, by=OPERATOR)).text.endswith(
        f"{MAX_WRONG_CODES - 1} more wrong ones and none is taken for an hour."
    )


async def test_a_denied_sender_gets_no_reply_for_an_hour(door: GatewayHarness) -> None:
    code = await given_code(door)
    await door.gateway.pairing.deny("eve", by=OPERATOR)
    assert not door.gateway.pairing.pending()
    assert (await door.gateway.pairing.approve(code, by=OPERATOR)).wrong
    await door.die()
    await door.start()
    later(door, NEW_CODE_AFTER)
    door.say("please", chat="eve", user="eve")
    assert await quiet(door) == 1
    with pytest.raises(PairingRefused, match="Nobody called eve waits"):
        await door.gateway.pairing.deny("eve", by=OPERATOR)


async def test_a_revoked_user_is_unknown_at_once_and_after_a_crash(door: GatewayHarness) -> None:
    await door.gateway.pairing.approve(await given_code(door), by=OPERATOR)
    await door.sent(2)
    await door.gateway.pairing.revoke("simulated:default:eve", by=OPERATOR)
    await given_code(door, sent=3)
    await door.die()
    await door.start()
    assert not door.gateway.paired_users.users()
    with pytest.raises(PairingRefused, match="let in by a code"):
        await door.gateway.pairing.revoke("eve", by=OPERATOR)


async def test_a_user_id_that_imitates_another_user_does_not_shield_that_user(
    door: GatewayHarness,
) -> None:
    """What somebody chose to be called keeps no other from being denied or sent away."""
    eve = "simulated:default:eve"
    await door.gateway.pairing.approve(await given_code(door), by=OPERATOR)
    await door.sent(2)
    mocking = await given_code(door, eve, sent=3)
    await door.gateway.pairing.approve(mocking, by=OPERATOR)
    await door.gateway.pairing.revoke(eve, by=OPERATOR)
    assert [each.principal for each in door.gateway.pairing.paired_users.users()] == [
        f"simulated:default:{eve}"
    ]


async def test_a_message_without_a_sender_gets_no_code(door: GatewayHarness) -> None:
    """It would let in whoever the platform has no id of."""
    door.say("let me in", chat="nowhere", user="")
    assert await quiet(door) == 0
    assert door.gateway.pairing.pending() == []


async def test_only_operators_decide_pairing_requests_in_a_chat(door: GatewayHarness) -> None:
    """G5: what is decided commits with the end of the command's row."""
    code = await given_code(door)
    door.say(f"/pairing approve {code}", chat="bob", user="bob")
    assert "may not operate" in (await door.texts(2))[-1]
    door.say("/pairing", chat="ann", user="ann")
    assert "Eve (simulated:default:eve) waits, for 60 minutes more." in (await door.texts(3))[-1]
    door.say(f"/pairing approve {WRONG}", chat="ann", user="ann")
    assert "Nobody has this code" in (await door.texts(4))[-1]
    door.say(f"/pairing approve {code}", chat="ann", user="ann")
    texts = {each.outgoing.chat_id: each.text for each in (await door.sent(6))[-2:]}
    assert texts["eve"] == WELCOME_TEXT
    assert texts["ann"].endswith("is let in, and told so.")
    door.say("/pairing revoke eve", chat="ann", user="ann")
    assert "may not talk here any more" in (await door.texts(7))[-1]
    door.say("/pairing elope eve", chat="ann", user="ann")
    assert "knows no 'elope'" in (await door.texts(8))[-1]
    assert set(await door.ledger()) == {"answered", "refused"}


async def test_a_redelivered_message_gets_one_code(door: GatewayHarness) -> None:
    """G2: however late it comes again, it makes neither a second code nor the first one void."""
    source = Source(platform="simulated", chat_id="eve", user_id="eve")
    said = Inbound(source=source, event_id="same", message_id="m", text="hi")
    for _ in range(2):
        with pytest.raises(NotAllowed):
            await door.gateway.intake.accept(said)
        later(door, NEW_CODE_AFTER)
    assert await quiet(door) == 1
    assert (await door.store.inbox_counts())[InboxState.REFUSED] == 1
    code = code_in(door.service.sent[0])
    assert not (await door.gateway.pairing.approve(code, by=OPERATOR)).wrong


async def test_pairing_can_be_disabled_for_an_account(door: GatewayHarness) -> None:
    account = msgspec.structs.replace(door.settings.platforms["simulated"], pairing=False)
    door.settings = Settings(platforms={"simulated": account})
    await door.stop()
    await door.start()
    door.say("hi", chat="eve", user="eve")
    assert await quiet(door) == 0


def test_codes_are_fair_readable_and_hashed_slowly() -> None:
    codes = {new_code(Random(seed).randbytes) for seed in range(40)}
    assert len(codes) > 30
    assert all(len(code) == 8 and set(code) <= set(CODE_ALPHABET) for code in codes)
    assert not set("01OIL") & set(CODE_ALPHABET)
    assert new_code(lambda size: b"\xff" * 15 + b"\x00") == CODE_ALPHABET[0] * 8
    assert parse_code(f" {format_code('ABCDEFGH').lower()} ") == "ABCDEFGH"
    assert parse_code("ABCDEFG0") is None
    digest = hash_code("ABCDEFGH", b"salt")
    assert code_matches("ABCDEFGH", b"salt", digest)
    assert not code_matches("ABCDEFGJ", b"salt", digest)
    assert hash_code("ABCDEFGH", b"other") != digest

"""Pairing: an unknown sender gets a code in a direct chat, and an operator approves it."""

import asyncio
from random import Random

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, ManualClock
from tests.support.pairing import code_in, request_code
from tests.support.store_file import open_read_only

from holdfast.core.config.settings import Settings
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
from holdfast.core.ports.store_queries import CountInbox
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


def advance_clock(pairing_harness: GatewayHarness, seconds: float) -> None:
    assert isinstance(pairing_harness.clock, ManualClock)
    pairing_harness.clock.at += seconds


async def sent_before_reply(pairing_harness: GatewayHarness) -> int:
    """How many messages were sent before the reply to a new message of bob, which comes last."""
    before = len(pairing_harness.service.sent)
    pairing_harness.model.say("yes")
    pairing_harness.say("still there?", chat="bob", user="bob")
    await pairing_harness.sent(before + 1)
    return before


async def test_an_unknown_sender_gets_a_code_and_is_paired_by_it(
    pairing_harness: GatewayHarness,
) -> None:
    """G3: the first message is refused and not stored; after the approval the user is notified."""
    code = await request_code(pairing_harness)
    assert await pairing_harness.ledger() == {"refused": 1}
    (request,) = pairing_harness.gateway.pairing.pending()
    assert (request.user_id, request.user_name) == ("eve", "Eve")
    decided = await pairing_harness.gateway.pairing.approve(
        code.lower().replace("-", " "), by=OPERATOR
    )
    assert "Eve (simulated:default:eve) has access now" in decided.text
    welcome = (await pairing_harness.sent(2))[-1]
    assert (welcome.outgoing.chat_id, welcome.text) == ("eve", WELCOME_TEXT)
    pairing_harness.model.say("welcome")
    pairing_harness.say("hello", chat="eve", user="eve")
    assert (await pairing_harness.texts(3))[-1] == "welcome"
    assert await pairing_harness.ledger() == {"refused": 1, "answered": 1}


async def test_neither_the_message_nor_the_code_is_stored(pairing_harness: GatewayHarness) -> None:
    """The store has a salted hash; the text of the delivery is deleted once it is sent."""
    code = await request_code(pairing_harness)
    await asyncio.wait_for(pairing_harness.gateway.outbox.flush(), 10)
    with open_read_only(pairing_harness.path) as cursor:
        tables = [name for (name,) in cursor.execute("SELECT name FROM sqlite_schema").fetchall()]
        rows = [
            str(cursor.execute(f"SELECT * FROM {name}").fetchall())
            for name in ("inbox", "outbox", "pairing_requests", "principals", "messages")
        ]
        ((state, text),) = cursor.execute("SELECT state, text FROM outbox").fetchall()
    assert {"pairing_requests", "principals", "pairing_tries"} <= set(tables)
    assert not any(code in row or code.replace("-", "") in row or "mackerel" in row for row in rows)
    assert (state, text) == (DeliveryState.SENT, "")


async def test_a_request_and_its_code_survive_a_crash(pairing_harness: GatewayHarness) -> None:
    """G5: a committed code is sent by the successor, is valid there, and is sent once."""
    pairing_harness.service.set_faults(Faults(floods=1 << 20, retry_after=3600.0))
    pairing_harness.say("hi", chat="eve", user="eve")
    while not pairing_harness.gateway.pairing.pending():
        await asyncio.sleep(0.01)
    await pairing_harness.die()
    pairing_harness.service.set_faults(Faults())
    await pairing_harness.start()
    code = code_in((await pairing_harness.sent(1))[-1])
    await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)
    await pairing_harness.sent(2)
    await asyncio.wait_for(pairing_harness.gateway.outbox.flush(), 10)  # its receipt is saved, too
    await pairing_harness.die()
    await pairing_harness.start()
    pairing_harness.model.say("welcome back")
    pairing_harness.say("it is me", chat="eve", user="eve")
    assert (await pairing_harness.texts(3))[-2:] == [WELCOME_TEXT, "welcome back"]


async def test_groups_and_bots_get_no_code(pairing_harness: GatewayHarness) -> None:
    pairing_harness.say("hello?", chat="club", user="eve", chat_type=ChatType.GROUP)
    pairing_harness.say("beep", chat="bot", user="robot", author=Author.BOT)
    assert await sent_before_reply(pairing_harness) == 0
    assert not pairing_harness.gateway.pairing.pending()
    assert await pairing_harness.ledger() == {"answered": 1}


async def test_a_second_request_gets_no_new_code_at_once(pairing_harness: GatewayHarness) -> None:
    """One message in ten minutes, and the newest code is the one that counts."""
    first = await request_code(pairing_harness)
    pairing_harness.say("hello? hello?", chat="eve", user="eve")
    assert await sent_before_reply(pairing_harness) == 1
    advance_clock(pairing_harness, NEW_CODE_AFTER)
    second = await request_code(pairing_harness, sent=3)
    assert (await pairing_harness.gateway.pairing.approve(first, by=OPERATOR)).wrong
    assert not (await pairing_harness.gateway.pairing.approve(second, by=OPERATOR)).wrong


async def test_the_number_of_pending_requests_of_an_account_is_limited(
    pairing_harness: GatewayHarness,
) -> None:
    for number in range(MAX_PENDING):
        await request_code(pairing_harness, f"eve{number}", sent=number + 1)
    pairing_harness.say("me too", chat="mallory", user="mallory")
    assert await sent_before_reply(pairing_harness) == MAX_PENDING
    advance_clock(pairing_harness, CODE_LIFETIME)
    await request_code(pairing_harness, "mallory", sent=MAX_PENDING + 2)
    assert [each.user_id for each in pairing_harness.gateway.pairing.pending()] == ["mallory"]


async def test_a_code_expires_after_an_hour(pairing_harness: GatewayHarness) -> None:
    code = await request_code(pairing_harness)
    advance_clock(pairing_harness, CODE_LIFETIME)
    assert (await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)).wrong


async def test_five_wrong_codes_lock_pairing_for_an_hour_also_across_a_crash(
    pairing_harness: GatewayHarness,
) -> None:
    code = await request_code(pairing_harness)
    pairing = pairing_harness.gateway.pairing
    tried = await asyncio.gather(
        *(pairing.approve(WRONG, by=OPERATOR) for _ in range(MAX_WRONG_CODES))
    )
    assert all(each.wrong for each in tried)
    assert "for an hour" in tried[-1].text
    await pairing_harness.die()
    await pairing_harness.start()
    with pytest.raises(PairingRefused, match="in 60 min"):
        await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)
    advance_clock(pairing_harness, LOCKOUT_SECONDS - 1)
    with pytest.raises(PairingRefused, match="in 1 min"):
        await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)
    advance_clock(pairing_harness, 1)
    fresh = await request_code(pairing_harness, sent=2)
    assert not (await pairing_harness.gateway.pairing.approve(fresh, by=OPERATOR)).wrong


async def test_a_clock_that_was_a_year_ahead_causes_no_year_long_lockout(
    pairing_harness: GatewayHarness,
) -> None:
    """Neither by wrong codes nor by requests that would be pending all the while."""
    year = 365 * 86400.0
    advance_clock(pairing_harness, year)
    for number in range(MAX_PENDING):
        await request_code(pairing_harness, f"eve{number}", sent=number + 1)
    for _ in range(MAX_WRONG_CODES):
        await pairing_harness.gateway.pairing.approve(WRONG, by=OPERATOR)
    assert pairing_harness.gateway.pairing.locked_until() is not None
    advance_clock(pairing_harness, -year)
    assert pairing_harness.gateway.pairing.pending() == []
    code = await request_code(pairing_harness, sent=MAX_PENDING + 1)
    decided = await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)
    assert not decided.wrong


async def test_a_right_code_clears_the_wrong_ones(pairing_harness: GatewayHarness) -> None:
    code = await request_code(pairing_harness)
    pairing = pairing_harness.gateway.pairing
    for _ in range(MAX_WRONG_CODES - 1):
        assert (await pairing.approve("not a code at all", by=OPERATOR)).wrong
    await pairing.approve(code, by=OPERATOR)
    assert (await pairing.approve(WRONG, by=OPERATOR)).text.endswith(
        f"{MAX_WRONG_CODES - 1} more wrong codes, no code is accepted for an hour."
    )


async def test_a_denied_sender_gets_no_reply_for_an_hour(pairing_harness: GatewayHarness) -> None:
    code = await request_code(pairing_harness)
    await pairing_harness.gateway.pairing.deny("eve", by=OPERATOR)
    assert not pairing_harness.gateway.pairing.pending()
    assert (await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)).wrong
    await pairing_harness.die()
    await pairing_harness.start()
    advance_clock(pairing_harness, NEW_CODE_AFTER)
    pairing_harness.say("please", chat="eve", user="eve")
    assert await sent_before_reply(pairing_harness) == 1
    with pytest.raises(PairingRefused, match="no access request of 'eve'"):
        await pairing_harness.gateway.pairing.deny("eve", by=OPERATOR)


async def test_a_revoked_user_is_unknown_at_once_and_after_a_crash(
    pairing_harness: GatewayHarness,
) -> None:
    await pairing_harness.gateway.pairing.approve(await request_code(pairing_harness), by=OPERATOR)
    await pairing_harness.sent(2)
    await pairing_harness.gateway.pairing.revoke("simulated:default:eve", by=OPERATOR)
    await request_code(pairing_harness, sent=3)
    await pairing_harness.die()
    await pairing_harness.start()
    assert not pairing_harness.gateway.paired_users.users()
    with pytest.raises(PairingRefused, match="not a paired user"):
        await pairing_harness.gateway.pairing.revoke("eve", by=OPERATOR)


async def test_a_user_id_that_imitates_another_user_does_not_shield_that_user(
    pairing_harness: GatewayHarness,
) -> None:
    """A chosen name keeps no other user from being denied or revoked."""
    eve = "simulated:default:eve"
    await pairing_harness.gateway.pairing.approve(await request_code(pairing_harness), by=OPERATOR)
    await pairing_harness.sent(2)
    mocking = await request_code(pairing_harness, eve, sent=3)
    await pairing_harness.gateway.pairing.approve(mocking, by=OPERATOR)
    await pairing_harness.gateway.pairing.revoke(eve, by=OPERATOR)
    assert [each.principal for each in pairing_harness.gateway.pairing.paired_users.users()] == [
        f"simulated:default:{eve}"
    ]


async def test_a_message_without_a_sender_gets_no_code(pairing_harness: GatewayHarness) -> None:
    """It would pair every sender of whom the platform has no id."""
    pairing_harness.say("let me in", chat="nowhere", user="")
    assert await sent_before_reply(pairing_harness) == 0
    assert pairing_harness.gateway.pairing.pending() == []


async def test_only_operators_decide_pairing_requests_in_a_chat(
    pairing_harness: GatewayHarness,
) -> None:
    """G5: what is decided commits with the end of the command's row."""
    code = await request_code(pairing_harness)
    pairing_harness.say(f"/pairing approve {code}", chat="bob", user="bob")
    assert "may not operate" in (await pairing_harness.texts(2))[-1]
    pairing_harness.say("/pairing", chat="ann", user="ann")
    assert (
        "Eve (simulated:default:eve) asks for access; the code is valid for 60 minutes."
        in (await pairing_harness.texts(3))[-1]
    )
    pairing_harness.say(f"/pairing approve {WRONG}", chat="ann", user="ann")
    assert "This code is wrong or has expired." in (await pairing_harness.texts(4))[-1]
    pairing_harness.say(f"/pairing approve {code}", chat="ann", user="ann")
    texts = {each.outgoing.chat_id: each.text for each in (await pairing_harness.sent(6))[-2:]}
    assert texts["eve"] == WELCOME_TEXT
    assert texts["ann"].endswith("has access now and gets a message about it.")
    pairing_harness.say("/pairing revoke eve", chat="ann", user="ann")
    assert "has no access any more" in (await pairing_harness.texts(7))[-1]
    pairing_harness.say("/pairing elope eve", chat="ann", user="ann")
    assert "does not know 'elope'" in (await pairing_harness.texts(8))[-1]
    assert set(await pairing_harness.ledger()) == {"answered", "refused"}


async def test_a_redelivered_message_gets_one_code(pairing_harness: GatewayHarness) -> None:
    """G2: however late it is repeated, it neither makes a second code nor voids the first one."""
    source = Source(platform="simulated", chat_id="eve", user_id="eve")
    inbound = Inbound(source=source, event_id="same", message_id="m", text="hi")
    for _ in range(2):
        with pytest.raises(NotAllowed):
            await pairing_harness.gateway.intake.accept(inbound)
        advance_clock(pairing_harness, NEW_CODE_AFTER)
    assert await sent_before_reply(pairing_harness) == 1
    assert (await pairing_harness.store.read(CountInbox()))[InboxState.REFUSED] == 1
    code = code_in(pairing_harness.service.sent[0])
    assert not (await pairing_harness.gateway.pairing.approve(code, by=OPERATOR)).wrong


async def test_pairing_can_be_disabled_for_an_account(pairing_harness: GatewayHarness) -> None:
    account = msgspec.structs.replace(
        pairing_harness.settings.platforms["simulated"], pairing=False
    )
    pairing_harness.settings = Settings(platforms={"simulated": account})
    await pairing_harness.stop()
    await pairing_harness.start()
    pairing_harness.say("hi", chat="eve", user="eve")
    assert await sent_before_reply(pairing_harness) == 0


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

"""Tests the Matrix platform on a real Synapse. It is one file, so that one server is enough."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from tests.platforms.matrix.builders import (
    address,
    change,
    new_platform,
    outbound,
    plugin_context,
    settings_for,
    until,
    write_checkpoint,
)
from tests.platforms.matrix.encrypting_user import EncryptingUser
from tests.platforms.matrix.fault_proxy import MatrixFault, MatrixFaultProxy
from tests.platforms.matrix.harness import MatrixHarness
from tests.platforms.matrix.synapse import Account, Synapse
from tests.platforms.matrix.users import MatrixUser
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.errors import ConnectRefused, SendRejected
from holdfast.core.messages.outbox import DeliveryState, OutboundFile
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.platforms.matrix.platform import check_account
from holdfast.platforms.matrix.sync import SyncTuning
from holdfast.testing.conformance.connections import a_half_open_connection_is_not_reported_as_alive
from holdfast.testing.conformance.harness import ConformanceCheck, Participant
from holdfast.testing.conformance.suite import CHECKS
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.scripted_model import ManualReply

# Seconds until a platform gives up waiting. A busy server needs some of them; where the proxy is
# silent, a test waits for all of them.
_USUAL, _SHORT = 20.0, 2.0


@pytest.fixture
async def harness(
    check: ConformanceCheck,
    synapse: Synapse,
    shared: tuple[Account, dict[object, str]],
    ann: MatrixUser,
    bob: MatrixUser,
    program: MatrixUser,
    tmp_path: Path,
) -> AsyncIterator[MatrixHarness]:
    """A device of its own for each check: transactions are known by it."""
    bot, rooms = synapse.log_in(shared[0]), shared[1]
    users = {Participant.ANN: ann, Participant.BOB: bob, Participant.PROGRAM: program}
    async with (
        MatrixFaultProxy(synapse.base_url).open() as proxy,
        MatrixUser(synapse.base_url, bot) as client,
    ):
        since = await write_checkpoint(client, tmp_path)
        half_open = check is a_half_open_connection_is_not_reported_as_alive
        limit = _SHORT if half_open else _USUAL
        platform = new_platform(
            proxy.base_url, bot, tmp_path, by_token=True, limit=limit, allow=("*",)
        )
        made = MatrixHarness(proxy, client, users, platform=platform, rooms=rooms, since=since)
        yield await made.begin()


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_passes_the_conformance_suite(
    check: ConformanceCheck, harness: MatrixHarness
) -> None:
    await check(harness)


@pytest.mark.parametrize(
    ("status", "errcode"),
    [
        (404, "M_NOT_FOUND"),
        (404, "M_UNRECOGNIZED"),
        (400, "M_UNRECOGNIZED"),
        (405, "M_UNRECOGNIZED"),
        (403, "M_FORBIDDEN"),
    ],
)
async def test_a_homeserver_without_a_list_of_direct_rooms_is_connected(
    synapse: Synapse, bot: Account, ann: MatrixUser, folder: Path, status: int, errcode: str
) -> None:
    """https://spec.matrix.org/latest/client-server-api/#common-error-codes: "M_UNRECOGNIZED: The
    server did not understand the request", with 404 or 405; older homeservers say 400."""
    room = await ann.create_room(bot.name)
    intake = RecordingIntake()
    async with MatrixFaultProxy(synapse.base_url).open() as proxy:
        proxy.answers["/account_data/m.direct"] = (status, {"errcode": errcode, "error": "?"})
        platform = new_platform(proxy.base_url, bot, folder, allow=(ann.user_id,))
        async with platform.connect(intake):
            await ann.say(room, "hello")
            await intake.wait_for_attempts(1)
    assert [each.source.chat_type for each in intake.accepted] == [ChatType.DM]


async def test_a_token_that_is_refused_with_the_list_of_direct_rooms_blocks_the_account(
    synapse: Synapse, bot: Account, folder: Path
) -> None:
    async with MatrixFaultProxy(synapse.base_url).open() as proxy:
        refusal = {"errcode": "M_UNKNOWN_TOKEN", "error": "Invalid access token passed."}
        proxy.answers["/account_data/m.direct"] = (401, refusal)
        platform = new_platform(proxy.base_url, bot, folder, by_token=True)
        with pytest.raises(ConnectRefused):
            async with platform.connect(RecordingIntake()):
                pass


async def test_a_refused_upload_of_keys_is_logged_once_with_a_remedy(
    synapse: Synapse,
    bot: Account,
    ann: MatrixUser,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every sync asks for it again, and every connection; the account works in open rooms."""
    room = await ann.create_room(bot.name)
    intake = RecordingIntake()
    async with MatrixFaultProxy(synapse.base_url).open() as proxy:
        exists = {"errcode": "M_UNKNOWN", "error": "One time key already exists"}
        proxy.answers["/keys/upload"] = (400, exists)
        platform = new_platform(proxy.base_url, bot, folder, allow=(ann.user_id,))
        for number in (1, 2, 3):
            async with platform.connect(intake):
                await ann.say(room, f"hello {number}")
                await intake.wait_for_attempts(number)
        uploads = [path for path in proxy.asked if path.endswith("/keys/upload")]
        assert len(uploads) >= 3
        logged = [each.message for each in caplog.records if "keys of this device" in each.message]
        assert len(logged) == 1
        assert "One time key already exists" in logged[0] and "as a new device" in logged[0]
        del proxy.answers["/keys/upload"]
        async with platform.connect(intake):
            await ann.say(room, "hello 4")
            await intake.wait_for_attempts(4)
    assert [each.text for each in intake.accepted][-1] == "hello 4"


async def test_invitations_of_allowed_users_are_accepted_with_the_messages_since_then(
    synapse: Synapse, bot: Account, ann: MatrixUser, bob: MatrixUser, folder: Path
) -> None:
    """Invites: from allowed people; a stranger's group is declined, and a chat of two taken."""
    platform = new_platform(synapse.base_url, bot, folder, allow=(ann.user_id,))
    group = await ann.create_room(bob.user_id)
    await bob.join(group)
    await ann.say(group, "before it came")
    await ann.invite(group, bot.name)
    await ann.say(group, "hello all")
    strange, chat = await bob.create_room(bot.name), await bob.create_room(bot.name, direct=True)
    intake = RecordingIntake()
    async with platform.connect(intake):
        await intake.wait_for_attempts(1)
        await bob.say(chat, "may I?")
        await intake.wait_for_attempts(2)
        await until(lambda: has_declined(bob, strange, bot))
    first, second = intake.accepted
    assert (first.text, first.source.chat_type) == ("hello all", ChatType.GROUP)
    assert (second.text, second.source.chat_type) == ("may I?", ChatType.DM)


async def has_declined(host: MatrixUser, room: str, guest: Account) -> bool:
    return await host.membership(room, guest.name) == "leave"


async def test_a_room_that_was_upgraded_is_followed_and_stays_one_chat(
    synapse: Synapse, bot: Account, ann: MatrixUser, client: MatrixUser, folder: Path
) -> None:
    """https://spec.matrix.org/latest/client-server-api/#room-upgrades: twice, by the invitation
    of a person who may not talk, and over a restart; messages sent before the bot joined are
    read."""
    room = await ann.create_room(bot.name, room_version="9")
    await client.join(room)
    platform, intake = new_platform(synapse.base_url, bot, folder), RecordingIntake()
    async with platform.connect(intake):
        await ann.say(room, "one")
        await intake.wait_for_attempts(1)
        second = await upgraded(ann, room)
        await ann.say(second, "two")
        await ann.invite(second, bot.name)
        await intake.wait_for_attempts(2)
        await platform.send(outbound("here", address(room)))
        await until(lambda: ann.reads(second, bot.name, "here"))
    third = await upgraded(ann, second)
    await ann.invite(third, bot.name)
    async with new_platform(synapse.base_url, bot, folder).connect(intake):
        await ann.say(third, "three")
        await intake.wait_for_attempts(3)
    assert [each.text for each in intake.accepted] == ["one", "two", "three"]
    assert {each.source.chat_id for each in intake.accepted} == {room}


async def upgraded(host: MatrixUser, room: str) -> str:
    body = {"new_version": "10"}
    return str((await host.call("POST", f"rooms/{quote(room)}/upgrade", body))["replacement_room"])


async def test_a_room_without_a_predecessor_is_a_chat_of_its_own(
    synapse: Synapse,
    bot: Account,
    ann: MatrixUser,
    bob: MatrixUser,
    client: MatrixUser,
    folder: Path,
) -> None:
    """Authorisation: a person who may upgrade a room cannot speak in it from any other."""
    room, other = await ann.create_room(bot.name), await bob.create_room(bot.name)
    await client.join(room)
    platform, intake = new_platform(synapse.base_url, bot, folder, allow=("*",)), RecordingIntake()
    async with platform.connect(intake):
        body = {"body": "over there", "replacement_room": other}
        await ann.call("PUT", f"rooms/{quote(room)}/state/m.room.tombstone/", body)
        await bob.say(other, "hello")
        await intake.wait_for_attempts(1)
    assert [each.source.chat_id for each in intake.accepted] == [other]


async def test_a_gap_that_a_sync_leaves_is_filled_from_the_history(
    synapse: Synapse, bot: Account, ann: MatrixUser, client: MatrixUser, folder: Path
) -> None:
    """G1: more was said meanwhile than one answer holds."""
    room = await ann.create_room(bot.name, direct=True)
    await client.join(room)
    said = [f"message {number}" for number in range(13)]
    await asyncio.gather(*(ann.say(room, text) for text in said))
    intake = RecordingIntake()
    async with new_platform(synapse.base_url, bot, folder, tuning=SyncTuning(page_size=4)).connect(
        intake
    ):
        await intake.wait_for_attempts(len(said))
    order = await ann.texts(room, by=ann.user_id)
    assert [each.text for each in intake.attempted] == order
    assert intake.accepted[-1].cursor is not None
    assert all(each.cursor is None for each in intake.accepted[:-1])


async def test_an_edit_belongs_to_the_thread_of_what_it_changes(
    synapse: Synapse, bot: Account, ann: MatrixUser, client: MatrixUser, folder: Path
) -> None:
    room = await ann.create_room(bot.name, direct=True)
    await client.join(room)
    root = await ann.say(room, "root")
    thread = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
    name = await ann.say(room, "helo", **{"m.relates_to": thread})
    await ann.revise(room, name, "hello")
    await client.revise(room, name, "what Ann never said")
    intake = RecordingIntake()
    async with new_platform(synapse.base_url, bot, folder).connect(intake):
        await ann.say(room, "after")
        await intake.wait_for_attempts(4)
    found = [(each.text, each.source.thread_id, each.message_id) for each in intake.accepted[:3]]
    assert found == [("root", None, root), ("helo", root, name), ("hello", root, name)]
    assert intake.accepted[-1].text == "after"


async def test_the_device_survives_restarts_and_a_revoked_token(
    synapse: Synapse, bot: Account, ann: MatrixUser, client: MatrixUser, folder: Path
) -> None:
    """A login by a password is made once; only the bot's user can read the token."""
    platform = new_platform(synapse.base_url, bot, folder, read_receipts=False)
    for _ in range(2):
        async with platform.connect(RecordingIntake()):
            pass
    devices = await client.call("GET", "devices")
    (ours,) = [each for each in devices["devices"] if each["display_name"] == "Holdfast"]
    assert {oct(each.stat().st_mode & 0o777) for each in folder.iterdir()} == {"0o600"}
    await client.call("POST", "logout/all", {})
    async with platform.connect(RecordingIntake()):
        pass
    login = synapse.log_in(bot)
    async with MatrixUser(synapse.base_url, login) as again:
        devices = await again.call("GET", "devices")
    assert ours["device_id"] in [each["device_id"] for each in devices["devices"]]


async def test_a_wrong_password_blocks_the_account_with_a_remedy(
    synapse: Synapse, bot: Account, tmp_path: Path
) -> None:
    wrong = Account(name=bot.name.replace("bot", "nobody"), token="")
    with pytest.raises(ConnectRefused) as raised:
        async with new_platform(synapse.base_url, wrong, tmp_path).connect(RecordingIntake()):
            pass
    assert "platforms.matrix.password" in str(raised.value.remedy)


async def test_setup_learns_whose_credentials_those_are_and_leaves_no_device(
    synapse: Synapse, bot: Account, client: MatrixUser, tmp_path: Path
) -> None:
    for by_token in (False, True):
        known = await check_account(
            plugin_context(synapse.base_url, bot, tmp_path, by_token=by_token)
        )
        assert known.name == bot.name
    assert len((await client.call("GET", "devices"))["devices"]) == 1
    wrong = Account(name=bot.name.replace("bot", "nobody"), token="wrong")
    for by_token in (False, True):
        with pytest.raises(ConnectRefused):
            await check_account(
                plugin_context(synapse.base_url, wrong, tmp_path, by_token=by_token)
            )
    assert list(tmp_path.iterdir()) == []


async def test_an_accepted_message_gets_a_read_receipt(
    synapse: Synapse, bot: Account, ann: MatrixUser, client: MatrixUser, folder: Path
) -> None:
    room = await ann.create_room(bot.name, direct=True)
    await client.join(room)
    intake = RecordingIntake()
    async with new_platform(synapse.base_url, bot, folder).connect(intake):
        said = await ann.say(room, "hello")
        await until(lambda: ann.has_read(room, bot.name, said))


async def test_messages_in_an_encrypted_room_are_decrypted_and_replies_are_encrypted(
    synapse: Synapse, bot: Account, folder: Path, eve: EncryptingUser
) -> None:
    """E2EE: text, edit and file, over a restart that keeps the device and its keys."""
    platform = new_platform(synapse.base_url, bot, folder)
    room = await eve.create_room(bot.name)
    intake = RecordingIntake()
    async with platform.connect(intake):
        await until(lambda: eve.can_encrypt_to(room, bot.name))
        await eve.say(room, "can you read this?")
        await intake.wait_for_attempts(1)
        receipt = await platform.send(outbound("Ye", address(room)))
        await platform.edit(change(receipt.platform_message_id, "Yes", address(room)))
    async with platform.connect(intake):
        await eve.say(room, "and now?")
        await intake.wait_for_attempts(2)
        plan = OutboundFile(name="plan.txt", data=b"the plan")
        await platform.send(outbound("look", address(room), name="d2", file=plan))
    first, edited, filed = await eve.messages_by(bot.name)
    assert [each.text for each in intake.accepted] == ["can you read this?", "and now?"]
    assert first["body"] == "Ye"
    assert edited["m.new_content"]["body"] == "Yes"
    assert await eve.download(filed["file"]) == b"the plan"
    assert all(each["decrypted"] for each in (first, edited, filed))
    assert {oct(each.stat().st_mode & 0o777) for each in folder.iterdir()} == {"0o600"}


async def test_a_reaction_to_an_encrypted_message_is_set_and_removed_unencrypted(
    synapse: Synapse, bot: Account, client: MatrixUser, folder: Path, eve: EncryptingUser
) -> None:
    """E2EE: https://spec.matrix.org/latest/client-server-api/#event-annotations-and-reactions: the
    server counts them. One that another connection has put is found, too."""
    platform = new_platform(synapse.base_url, bot, folder)
    room = await eve.create_room(bot.name)
    intake = RecordingIntake()
    async with platform.connect(intake):
        await until(lambda: eve.can_encrypt_to(room, bot.name))
        await eve.say(room, "are you there?")
        (said,) = await intake.wait_for_attempts(1)
        await platform.react(address(room), said.message_id, WAITING_REACTION)
        assert await client.reactions(room, said.message_id, by=bot.name) == [WAITING_REACTION]
    async with platform.connect(intake):
        await platform.react(address(room), said.message_id, None)
        assert await client.reactions(room, said.message_id, by=bot.name) == []


async def test_a_message_whose_keys_are_late_is_announced_and_decrypted_when_they_arrive(
    synapse: Synapse, bot: Account, folder: Path, eve: EncryptingUser
) -> None:
    """E2EE: over a restart, too, and in spite of what was heard since."""
    async with MatrixFaultProxy(synapse.base_url).open() as proxy:
        platform = new_platform(
            proxy.base_url, bot, folder, tuning=SyncTuning(undecrypted_notice_delay=0.05)
        )
        intake = RecordingIntake()
        room = await eve.create_room(bot.name)
        async with platform.connect(intake):
            await until(lambda: eve.can_encrypt_to(room, bot.name))
            proxy.keys_late = True
            await eve.say(room, "late")
            await intake.wait_for_attempts(1)
        async with platform.connect(intake):
            proxy.keys_late = False
            await eve.say(room, "on time")
            await until(lambda: len(intake.accepted) == 3)
    notice, *read = [each.text for each in intake.accepted]
    assert "encrypted, and its key has not arrived" in notice
    assert read == ["late", "on time"]


async def test_nothing_is_sent_in_clear_to_a_room_that_is_encrypted(
    synapse: Synapse, bot: Account, client: MatrixUser, folder: Path, eve: EncryptingUser
) -> None:
    """Without the extra that encrypts, or with it switched off: the error says what to do."""
    room = await eve.create_room(bot.name)
    await client.join(room)
    platform = new_platform(synapse.base_url, bot, folder, encryption=False)
    async with platform.connect(RecordingIntake()):
        try:
            await platform.send(outbound("secret", address(room)))
        except SendRejected as error:
            notice = str(error)
    assert "pip install 'holdfast[matrix,e2e]'" in notice
    assert await eve.messages_by(bot.name) == []


@pytest.fixture
async def proxy(synapse: Synapse) -> AsyncIterator[MatrixFaultProxy]:
    async with MatrixFaultProxy(synapse.base_url).open() as made:
        yield made


@pytest.fixture
async def chat(ann: MatrixUser, bot: Account, client: MatrixUser) -> str:
    """A room of Ann and the account."""
    room = await ann.create_room(bot.name, direct=True)
    await client.join(room)
    return room


@pytest.fixture
async def gateway_harness(
    tmp_path: Path, proxy: MatrixFaultProxy, bot: Account, ann: MatrixUser, folder: Path
) -> AsyncIterator[PlatformGatewayHarness]:
    platform = new_platform(proxy.base_url, bot, folder)
    platform.capabilities = msgspec.structs.replace(platform.capabilities, edit_interval=0.2)
    settings = settings_for(proxy.base_url, bot, allow=(ann.user_id,), password="env:password")
    async with running_harness(
        PlatformGatewayHarness(tmp_path, platform, settings, texts=tuple)
    ) as made:
        yield made


async def test_a_reply_streams_into_one_message(
    gateway_harness: PlatformGatewayHarness, ann: MatrixUser, bot: Account, chat: str
) -> None:
    """I4: stream, edits and final text are one message."""
    reply = ManualReply()
    gateway_harness.model.say(reply)
    await ann.say(chat, "tell me")
    reply.say("Once upon")
    await until(lambda: ann.reads(chat, bot.name, "Once upon"))
    reply.say(" a **time**.")
    reply.end()
    await until(lambda: ann.reads(chat, bot.name, "Once upon a time."))
    await gateway_harness.wait_for_deliveries(DeliveryState.SENT, 1)


async def test_a_message_sent_while_the_gateway_was_down_is_answered_once_after_the_start(
    gateway_harness: PlatformGatewayHarness, ann: MatrixUser, bot: Account, chat: str
) -> None:
    """G1, G2, H3: also where it died before it could say how far it had come."""
    gateway_harness.model.say("hello")
    await ann.say(chat, "hi")
    await until(lambda: ann.reads(chat, bot.name, "hello"))
    await gateway_harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await gateway_harness.die()
    await ann.say(chat, "anybody?")
    gateway_harness.model.say("here I am")
    await gateway_harness.start()
    await until(lambda: ann.reads(chat, bot.name, "hello", "here I am"))
    assert await gateway_harness.ledger() == {"answered": 2}


async def test_a_reply_without_a_receipt_arrives_once(
    gateway_harness: PlatformGatewayHarness,
    proxy: MatrixFaultProxy,
    ann: MatrixUser,
    bot: Account,
    chat: str,
) -> None:
    """I2: unknown → settled by its transaction."""
    proxy.faults += [MatrixFault.RESET_AFTER, MatrixFault.RESET_AFTER]
    gateway_harness.model.say("hello")
    await ann.say(chat, "hi")
    await gateway_harness.wait_for_deliveries(DeliveryState.SENT, 1)
    assert await ann.texts(chat, by=bot.name) == ["hello"]

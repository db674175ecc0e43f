"""Tests sending over XMPP: formatting, receipts, rooms and files."""

from pathlib import Path

import aiohttp
import pytest
from tests.platforms.xmpp.builders import address, change, new_id, new_platform, outbound, until
from tests.platforms.xmpp.prosody import Prosody
from tests.platforms.xmpp.users import BOT, XmppUser

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import OutboundFile
from holdfast.core.ports.capabilities import WAITING_REACTION, Backlog
from holdfast.testing.intake import RecordingIntake


async def test_formatting_uses_message_styling_and_ambiguous_text_is_marked_unstyled(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """Formatting: XEP-0393."""
    platform = new_platform(server, tmp_path)
    async with platform.connect(RecordingIntake()):
        await platform.send(outbound("**bold**"))
        await platform.send(outbound("2 *3 is * six"))
        await until(lambda: len(ann.texts()) == 2)
    styled, plain = ann.read
    unstyled = "{urn:xmpp:styling:0}unstyled"
    assert (styled["body"], styled.xml.find(unstyled)) == ("*bold*", None)
    assert plain.xml.find(unstyled) is not None


async def test_every_edit_corrects_the_first_message(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """I2, I4: XEP-0308; each has an id of its own."""
    platform = new_platform(server, tmp_path)
    async with platform.connect(RecordingIntake()):
        receipt = await platform.send(outbound("Hel"))
        for text in ("Hello", "Hello you"):
            await platform.edit(change(receipt.platform_message_id, text))
        await until(lambda: len(ann.read) == 3)
    assert [each["replace"]["id"] for each in ann.read[1:]] == [receipt.platform_message_id] * 2
    assert len({each["id"] for each in ann.read}) == 3
    assert ann.texts() == ["Hello you"]


async def test_typing_is_shown_and_not_archived(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    platform = new_platform(server, tmp_path)
    async with platform.connect(RecordingIntake()):
        await platform.show_typing(address())
        await until(lambda: ann.read)
    (composing,) = ann.read
    assert composing["chat_state"] == "composing"
    assert composing.xml.find("{urn:xmpp:hints}no-store") is not None


async def test_characters_that_xml_forbids_do_not_end_the_connection(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    platform = new_platform(server, tmp_path)
    async with platform.connect(intake := RecordingIntake()):
        with pytest.raises(SendRejected, match="not a valid XMPP address"):
            await platform.send(outbound("hello", to=address("an\x01n@localhost")))
        await platform.send(outbound("\x01hel\ufffflo", name=f"d\x02{new_id('odd')}"))
        await until(lambda: ann.texts() == ["hello"])
    assert intake.disconnects == []


async def test_the_echo_of_the_room_is_the_receipt(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """I2: and an answer names what it answers by the name that the room gave that (XEP-0461)."""
    room = f"{new_id('club')}@rooms.localhost"
    await ann.join_room(room)
    intake = RecordingIntake()
    platform = new_platform(server, tmp_path, rooms=(room,))
    async with platform.connect(intake):
        name = ann.write("bot: hello", to=room)
        (asked,) = await intake.wait_for_attempts(1)
        answer = outbound("hello", to=address(room, reply_to=name))
        receipt = await platform.send(answer)
        await platform.edit(change(receipt.platform_message_id, "hello ann", to=answer.address))
        await until(lambda: ann.texts() == ["hello ann"])
        assert await platform.find_delivery(answer.delivery_id, answer.address) == receipt
    assert asked.cursor is not None
    reply = ann.read[0]["reply"]
    assert (reply["to"], reply["id"]) == (f"{room}/ann", asked.cursor.value.split()[-1])


async def test_a_reaction_in_a_room_uses_the_id_that_the_room_assigned(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """XEP-0444; a room that gives none has no signs."""
    archived, unarchived = (f"{new_id('club')}@{host}.localhost" for host in ("rooms", "unkept"))
    await ann.join_room(archived)
    intake = RecordingIntake()
    platform = new_platform(server, tmp_path, rooms=(archived, unarchived))
    async with platform.connect(intake):
        name = ann.write("bot: hello", to=archived)
        (asked,) = await intake.wait_for_attempts(1)
        await platform.react(address(archived), name, WAITING_REACTION)
        await platform.react(address(archived), name, None)
        await until(lambda: len(ann.reactions) == 2)
        await ann.join_room(unarchived)
        other = ann.write("bot: hello", to=unarchived)
        await intake.wait_for_attempts(2)
        with pytest.raises(SendRejected, match="no id"):
            await platform.react(address(unarchived), other, WAITING_REACTION)
    assert asked.cursor is not None
    given = asked.cursor.value.split()[-1]
    reactions = [(each["reactions"]["id"], each["reactions"]["values"]) for each in ann.reactions]
    assert reactions == [(given, {WAITING_REACTION}), (given, set())]
    assert all(each.xml.find("{urn:xmpp:hints}store") is not None for each in ann.reactions)


async def test_a_resent_message_is_marked_in_a_room_without_an_archive(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """I2: resent once, and marked."""
    room = f"{new_id('club')}@unkept.localhost"
    await ann.join_room(room)
    platform = new_platform(server, tmp_path, rooms=(room,))
    async with platform.connect(RecordingIntake()):
        message = outbound("hello", to=address(room))
        assert await platform.find_delivery(message.delivery_id, message.address) is None
        await platform.send(message)
        await until(lambda: ann.texts())
    assert ann.texts() == ["_(This may have reached you before.)_\n\nhello"]


async def test_a_kick_refuses_sends_and_a_destroyed_room_is_joined_again(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    room = f"{new_id('club')}@rooms.localhost"
    await ann.join_room(room)
    intake = RecordingIntake()
    platform = new_platform(server, tmp_path, rooms=(room,))
    async with platform.connect(intake):
        await ann.plugin["xep_0045"].set_role(room, "bot", "none")
        with pytest.raises(SendRejected, match=r"removed from|not currently connected"):
            while True:
                await platform.send(outbound("hello", to=address(room)))
        assert intake.disconnects == []
    async with platform.connect(intake):
        await ann.plugin["xep_0045"].destroy(room)
        with pytest.raises(NotConnected, match=room):
            while True:
                await platform.send(outbound("hello", to=address(room)))
        await until(lambda: intake.disconnects)
    assert room in str(intake.disconnects[0])


async def test_a_file_is_uploaded_to_the_server_and_its_link_is_sent(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """Attachments: XEP-0363; only where the server has a place for them."""
    platform = new_platform(server, tmp_path)
    file = OutboundFile(name="pl\x01än.txt", data=b"the plan")
    async with platform.connect(RecordingIntake()):
        assert platform.capabilities.attachments_out
        await platform.send(outbound("", file=file))
        await until(lambda: ann.texts())
        huge = OutboundFile(name="huge", data=bytes(11 * 2**20))
        with pytest.raises(SendRejected, match=r"file-too-large|not-acceptable|too large"):
            await platform.send(outbound("", file=huge))
    (url,) = ann.texts()
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        assert await answer.read() == b"the plan"


async def test_a_server_without_archive_and_acks_still_accepts_messages(
    server: Prosody, tmp_path: Path
) -> None:
    """I2: what it answers to the next question is the receipt; doubt is not to be settled."""
    platform = new_platform(server, tmp_path, jid="bot@bare.localhost")
    intake = RecordingIntake()
    async with platform.connect(intake):
        assert (platform.capabilities.backlog, platform.capabilities.lookup) == (
            Backlog.NONE,
            False,
        )
        await platform.send(outbound("hello", to=address("ann@bare.localhost")))
        with pytest.raises(SendRejected, match="service-unavailable"):
            await platform.send(outbound("hello", to=address("nobody@bare.localhost")))
        await platform.send(outbound("to myself", to=address("bot@bare.localhost")))
    assert intake.attempted == []


async def test_a_connection_that_is_cut_leaves_an_unknown_outcome_that_the_archive_resolves(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """I2: unknown → looked up: of our own messages alone, and by the id of the delivery."""
    platform = new_platform(server, tmp_path)
    intake = RecordingIntake()
    message = outbound("hello")
    async with platform.connect(intake):
        server.inject_fault("cut")
        with pytest.raises(OutcomeUnknown):
            await platform.send(message)
        await until(lambda: intake.disconnects)
    forged = new_id("forged")
    copy = ann.make_message(mto=BOT, mbody="me", mtype="chat")
    copy["id"] = forged
    copy.send()
    async with platform.connect(intake):
        await until(lambda: any(each.message_id == forged for each in intake.accepted))
        found = await platform.find_delivery(message.delivery_id, message.address)
        assert found is not None
        assert found.platform_message_id == message.delivery_id
        assert await platform.find_delivery(DeliveryId(forged), message.address) is None
    assert ann.texts() == ["hello"]

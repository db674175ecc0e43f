"""Tests how XMPP messages become inbound messages, live and from the archive."""

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from tests.platforms.xmpp.builders import new_id, new_platform, outbound, until
from tests.platforms.xmpp.prosody import Prosody
from tests.platforms.xmpp.users import ANN, BOT, XmppUser, online

from holdfast.core.errors import NotAddressed, SendRejected, StoreError
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import AttachmentUnavailable, Author, ChatType
from holdfast.platforms.xmpp.archive import ArchiveCheckpoint, ArchiveCheckpoints, ArchivePosition
from holdfast.platforms.xmpp.events import XmppMessage, XmppPresence, parse_message
from holdfast.platforms.xmpp.receiver import (
    XmppDownloads,
    XmppParser,
    open_http_sessions,
    split_mention,
)
from holdfast.platforms.xmpp.rooms import XmppRoom
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import ALWAYS


async def connect_once(server: Prosody, folder: Path) -> None:
    """The account was here before: what is said from now on is for it."""
    async with new_platform(server, folder).connect(RecordingIntake()):
        pass


async def test_a_message_has_its_sender(server: Prosody, ann: XmppUser, tmp_path: Path) -> None:
    intake = RecordingIntake()
    async with new_platform(server, tmp_path).connect(intake):
        name = ann.write("hello")
        (received,) = await intake.wait_for_attempts(1)
    assert (received.text, received.message_id) == ("hello", name)
    source = received.source
    assert (source.chat_id, source.user_id, source.user_name) == (ANN, ANN, "ann")
    assert (source.chat_type, source.author) == (ChatType.DM, Author.PERSON)


async def test_a_message_that_is_not_archived_is_buffered_until_it_is_stored(
    server: Prosody, tmp_path: Path
) -> None:
    """G1: the store takes nothing, and the line is another one by the time that it does."""
    platform, intake = new_platform(server, tmp_path, jid="bot@bare.localhost"), RecordingIntake()
    intake.delay = ALWAYS
    async with online(server, "ann@bare.localhost") as ann:
        async with platform.connect(intake):
            for text in ("one", "two"):
                ann.write(text, to="bot@bare.localhost")
            await ann.settle()
            await until(lambda: intake.started)
            await platform.probe()  # its answer arrives after both
        intake.delay = 0.0
        intake.fail_next(StoreError("disk full"))
        async with platform.connect(intake):
            await intake.wait_for_attempts(3)
    assert [each.text for each in intake.attempted] == ["one", "one", "two"]
    assert len({each.event_id for each in intake.started}) == 2


async def test_a_presence_subscription_is_approved_and_not_requested_back(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    message: list[str] = []

    def see(presence: Any) -> None:
        if presence["from"].bare == BOT:
            message.append(presence["type"])

    for kind in ("available", "subscribe"):
        ann.add_event_handler(f"presence_{kind}", see)
    async with new_platform(server, tmp_path).connect(RecordingIntake()):
        ann.send_presence_subscription(pto=BOT)
        await until(lambda: message)
    assert set(message) == {"available"}


async def test_every_archive_page_is_read_in_order_before_new_messages(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """G1, G2: a page has 50 messages; what is found there and also said live is taken once."""
    await connect_once(server, tmp_path)
    for number in range(60):
        ann.write(str(number))
    intake = RecordingIntake()
    intake.fail_next(StoreError("disk full"))
    async with new_platform(server, tmp_path).connect(intake):
        for number in range(60, 65):
            ann.write(str(number))
        await until(lambda: len(intake.accepted) == 65)
    assert [each.text for each in intake.attempted] == ["0", *map(str, range(65))]


async def test_an_archived_message_is_not_fetched_again(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """G1: the id in the archive is the cursor; the timestamp beside it covers messages that were
    not archived."""
    await connect_once(server, tmp_path)
    intake = RecordingIntake()
    for text in ("one", "two", "not for you", "three"):
        if text == "not for you":
            intake.fail_next(NotAddressed("said to others"))
        async with new_platform(server, tmp_path).connect(intake):
            ann.write(text)
            await until(lambda text=text: intake.attempted and intake.attempted[-1].text == text)
    assert [each.text for each in intake.attempted] == ["one", "two", "not for you", "three"]
    assert len({each.event_id for each in intake.attempted}) == 4


async def test_a_new_account_ignores_messages_from_before_it_connected(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    ann.write("long ago")
    await ann.settle()
    await connect_once(server, tmp_path / "another")  # what waited for it alone was taken there
    intake = RecordingIntake()
    async with new_platform(server, tmp_path).connect(intake):
        ann.write("now")
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.attempted] == ["now"]


async def test_a_reset_archive_is_read_from_the_time_of_the_checkpoint(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    await connect_once(server, tmp_path)
    (path,) = tmp_path.iterdir()
    marks = await ArchiveCheckpoints.load(path)
    written = marks.position_for(BOT, cursor=None)
    assert written is not None
    lost = ArchivePosition(id="nobody-knows-it", timestamp=ArchivePosition.parse(written).timestamp)
    await marks.save(BOT, ArchiveCheckpoint(position=str(lost)))
    ann.write("missed")
    intake = RecordingIntake()
    async with new_platform(server, tmp_path).connect(intake):
        await until(lambda: intake.attempted and intake.attempted[-1].text == "missed")


async def test_an_invalid_checkpoint_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "marks.json").write_bytes(b"{")
    marks = await ArchiveCheckpoints.load(tmp_path / "marks.json")
    assert marks.position_for(BOT, cursor="2026-11-16T12:00:00Z a1") == "2026-11-16T12:00:00Z a1"
    await marks.save(BOT, ArchiveCheckpoint(position="p2", cursor="c1"))
    again = await ArchiveCheckpoints.load(tmp_path / "marks.json")
    assert (again.position_for(BOT, cursor="c1"), again.position_for(BOT, cursor="c2")) == (
        "p2",
        "c2",
    )


async def test_a_room_message_has_its_sender_and_whether_the_bot_is_mentioned(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """Groups: mentioned, replied to, quoted; nothing of ourselves, nothing whispered."""
    room = f"{new_id('club')}@rooms.localhost"
    await ann.join_room(room)
    intake = RecordingIntake()
    platform = new_platform(server, tmp_path, rooms=(room,))
    async with platform.connect(intake):
        await platform.send(outbound("I am here", to=address_of(room)))
        ann.write("psst", to=f"{room}/bot")
        ann.write("dinner at eight", to=room)
        ann.write("bot: /stop", to=room)
        reply = ann.plugin["xep_0461"].make_reply(
            reply_to=f"{room}/bot",
            reply_id="r1",
            fallback="I am here",
            mto=room,
            mtype="groupchat",
            mbody="are you?",
        )
        reply.send()
        plain, order, answer = await intake.wait_for_attempts(3)
    assert (plain.text, plain.mentioned, plain.quoted) == ("dinner at eight", False, None)
    assert (plain.source.user_id, plain.source.user_name) == (ANN, "ann")
    assert (plain.source.chat_id, plain.source.chat_type) == (room, ChatType.GROUP)
    assert (order.text, order.mentioned) == ("/stop", True)
    assert answer.quoted is not None
    assert (answer.text, answer.quoted.text, answer.quoted.ours) == ("are you?", "I am here", True)


def address_of(room: str) -> Address:
    return Address(platform="xmpp", account="default", chat_id=room)


async def test_room_messages_sent_while_disconnected_are_found_in_the_archive(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """G1: from all people but the bot itself, by their addresses, and once."""
    room = f"{new_id('club')}@rooms.localhost"
    await ann.join_room(room)
    intake = RecordingIntake()
    platform = new_platform(server, tmp_path, rooms=(room,))
    async with platform.connect(intake):
        await platform.send(outbound("going", to=address_of(room)))
    ann.write("bot, come back", to=room)
    await ann.settle()
    async with platform.connect(intake):
        ann.write("there you are", to=room)
        missed, live = await intake.wait_for_attempts(2)
    assert (missed.text, missed.mentioned, missed.source.user_id) == ("come back", True, ANN)
    assert live.text == "there you are"
    assert missed.event_id.startswith(f"{BOT} in {room}/")


async def test_a_forged_address_in_a_message_is_ignored(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """Authorisation goes by these ids: said now, and found in the archive."""
    room = f"{new_id('club')}@rooms.localhost"
    await ann.join_room(room)
    intake = RecordingIntake()
    platform = new_platform(server, tmp_path, rooms=(room,))

    def forge(body: str) -> None:
        message = ann.make_message(mto=room, mbody=body, mtype="groupchat")
        item = '<x xmlns="http://jabber.org/protocol/muc#user"><item jid="root@localhost"/></x>'
        message.append(fromstring(item))
        message.send()

    async with platform.connect(intake):
        forge("now")
        await intake.wait_for_attempts(1)
    forge("meanwhile")
    async with platform.connect(intake):
        await intake.wait_for_attempts(2)
    assert [(each.text, each.source.user_id) for each in intake.attempted] == [
        ("now", ANN),
        ("meanwhile", ANN),
    ]


async def test_a_message_has_the_language_of_its_senders_client(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    intake = RecordingIntake()
    async with new_platform(server, tmp_path).connect(intake):
        for language in ("de-DE", "de", ""):
            ann.write("hello", language=language)
        await intake.wait_for_attempts(3)
    languages = [each.source.language for each in intake.accepted]
    assert languages == ["de-DE", "de", ann.default_lang or ""]


def test_the_sender_in_a_room_is_identified_by_data_of_the_room() -> None:
    """A name is whose it is now; what was said before is by whom the room tells apart."""
    room = XmppRoom("club@rooms", on_lost=lambda error: None)
    room.handle_presence(XmppPresence(sender="club@rooms/ann", real_jid="eve@b", occupant_id="o2"))
    room.handle_presence(XmppPresence(sender="club@rooms/anna", real_jid="ann@b", occupant_id="o1"))
    message = XmppMessage(sender="club@rooms/ann", occupant_id="o1", real_jid="root@b")
    assert room.author_jid(message, is_live=True) == "eve@b"
    assert room.author_jid(message, is_live=False) == "ann@b"
    gone = XmppMessage(sender="club@rooms/bob", occupant_id="o3")
    assert room.author_jid(gone, is_live=False) == "club@rooms/bob"


async def test_a_room_that_cannot_be_joined_blocks_no_other_chat(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    intake = RecordingIntake()
    closed = "club@nowhere.localhost"
    platform = new_platform(server, tmp_path, rooms=(closed,))
    async with platform.connect(intake):
        with pytest.raises(SendRejected, match=r"club@nowhere\.localhost"):
            await platform.send(outbound("hello", to=address_of(closed)))
        ann.write("hello")
        await intake.wait_for_attempts(1)


async def test_a_nick_in_use_in_a_room_is_replaced(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """If the name of the bot is taken, it uses another, and reacts to that."""
    room = f"{new_id('club')}@rooms.localhost"
    await ann.plugin["xep_0045"].join_muc_wait(room, "bot", maxstanzas=0)
    await ann.unlock_room(room)
    intake = RecordingIntake()
    async with new_platform(server, tmp_path, rooms=(room,)).connect(intake):
        ann.write("bot_: hello", to=room)
        (received,) = await intake.wait_for_attempts(1)
    assert (received.text, received.mentioned, received.source.user_id) == ("hello", True, ANN)


async def test_a_file_is_downloaded_from_its_link(
    server: Prosody, ann: XmppUser, tmp_path: Path
) -> None:
    """Attachments"""
    path = tmp_path / "plan.txt"
    path.write_bytes(b"the plan")
    url = await ann.plugin["xep_0363"].upload_file(path)
    intake = RecordingIntake()
    async with new_platform(server, tmp_path / "platform").connect(intake):
        ann.write(url, oob={"url": url})
        (received,) = await intake.wait_for_attempts(1)
    assert (received.text, intake.attachments) == ("", [("plan.txt", b"the plan")])


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:9/x", "file:///etc/passwd", "http://notlocalhost/x", "https://[/x"]
)
async def test_a_link_to_anywhere_else_is_not_followed(url: str) -> None:
    """Attachments: it could lead to what this machine reaches, and its writer does not."""
    async with open_http_sessions() as reached:
        downloads = XmppDownloads(reached, trusted_hosts=("localhost",), tls=False, max_bytes=100)
        message = XmppMessage(sender=ANN, url=url)
        (attached,) = downloads.attachments_of(message, last_attempt=True)
        with pytest.raises(AttachmentUnavailable, match=r"private address|link is not allowed"):
            await attached.fetch()


@pytest.mark.parametrize(
    ("body", "named", "text"),
    [
        ("bot: /stop", True, "/stop"),
        ("Bot, hello", True, "hello"),
        ("@bot hello", True, "hello"),
        ("@bot: hello", True, "hello"),
        ("bot", True, "bot"),
        ("bot:", True, "bot:"),
        ("ask @bot", True, "ask @bot"),
        ("the bot is nice", False, "the bot is nice"),
        ("bottle: empty", False, "bottle: empty"),
        ("me@bother.org", False, "me@bother.org"),
    ],
)
def test_a_mention_is_split_from_the_text(body: str, named: bool, text: str) -> None:
    assert split_mention(body, "bot") == (named, text)


def read(xml: str) -> Inbound | None:
    reader = XmppParser(BOT, account="default", new_id=new_id)
    return reader.parse_chat_message(parse_message(fromstring(xml)), None)


def test_a_server_message_has_no_human_author_and_an_empty_one_is_skipped() -> None:
    notice = read('<message xmlns="jabber:client" from="localhost"><body>update</body></message>')
    assert notice is not None
    assert notice.source.author is Author.BOT
    assert read('<message xmlns="jabber:client" from="a@b/c" type="chat"/>') is None
    assert read(f'<message xmlns="jabber:client" from="{BOT}/x"><body>me</body></message>') is None


@pytest.mark.parametrize(("start", "end"), [("0", "9" * 5000), ("x", "2"), ("3", "1"), ("-1", "2")])
def test_an_invalid_quote_range_is_ignored(start: str, end: str) -> None:
    """A message that cannot be read would come out of the archive for ever."""
    message = parse_message(
        fromstring(
            '<message xmlns="jabber:client" from="a@b/c" type="chat"><body>&gt; hm\nyes</body>'
            '<reply xmlns="urn:xmpp:reply:0" to="d@e" id="1"/>'
            '<fallback xmlns="urn:xmpp:fallback:0" for="urn:xmpp:reply:0">'
            f'<body start="{start}" end="{end}"/></fallback></message>'
        )
    )
    assert message.reply is not None
    assert (message.body, message.reply.quoted) == ("> hm\nyes", "")


def test_an_archive_id_is_trusted_only_from_the_owner_of_the_archive() -> None:
    """XEP-0359, 5: any sender can write one."""
    message = parse_message(
        fromstring(
            '<message xmlns="jabber:client" from="a@b/c"><body>x</body>'
            f'<stanza-id xmlns="urn:xmpp:sid:0" by="{BOT}" id="1"/>'
            '<stanza-id xmlns="urn:xmpp:sid:0" by="a@b" id="2"/></message>'
        )
    )
    assert message.archive_ids[BOT] == "1"

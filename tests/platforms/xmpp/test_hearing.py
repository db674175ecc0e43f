"""What people write over XMPP, in our words: live, and out of the archive."""

from pathlib import Path

from tests.platforms.xmpp.doors import door_to
from tests.platforms.xmpp.people import ANN, Person
from tests.platforms.xmpp.prosody import Prosody

from holdfast.core.source import Author, ChatType
from holdfast.platforms.simulated.recorder import RecordingIntake


async def test_a_message_is_said_by_its_writer(
    server: Prosody, ann: Person, tmp_path: Path
) -> None:
    intake = RecordingIntake()
    async with door_to(server, tmp_path).connect(intake):
        name = ann.write("hello")
        (heard,) = await intake.wait_for_tries(1)
    assert (heard.text, heard.message_id) == ("hello", name)
    source = heard.source
    assert (source.chat_id, source.user_id, source.user_name) == (ANN, ANN, "ann")
    assert (source.chat_type, source.author) == (ChatType.DM, Author.PERSON)

"""Hearing in rooms of a real Synapse: from an invitation to what intake is handed."""

from pathlib import Path

from tests.platforms.matrix.doors import door_to, introduce
from tests.platforms.matrix.people import Person
from tests.platforms.matrix.synapse import Synapse

from holdfast.platforms.simulated.recorder import RecordingIntake


async def test_what_was_said_while_nobody_listened_is_handed_over(
    synapse: Synapse, bot: str, ann: Person, tmp_path: Path
) -> None:
    door = door_to(synapse.base_url, bot, tmp_path)
    room = await introduce(door, ann, bot)
    said = await ann.say(room, "hello")
    intake = RecordingIntake()
    async with door.connect(intake):
        await intake.wait_for_tries(1)
    (inbound,) = intake.accepted
    assert (inbound.text, inbound.message_id) == ("hello", said)

"""The door to Matrix over a real Synapse. All of it is one file, so that one server does for it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.platforms.matrix.doors import door_to, until
from tests.platforms.matrix.gate import Gate
from tests.platforms.matrix.ground import MatrixGround
from tests.platforms.matrix.people import Person as Client
from tests.platforms.matrix.synapse import Account, Synapse

from holdfast.core.errors import ConnectRefused
from holdfast.core.source import ChatType
from holdfast.platforms.conformance.check import Check
from holdfast.platforms.conformance.ground import Person
from holdfast.platforms.conformance.suite import CHECKS
from holdfast.platforms.simulated.recorder import RecordingIntake

_SHORT = 2.0  # seconds that the door waits for an answer, where somebody is silent


@pytest.fixture
async def ground(
    synapse: Synapse,
    bot: Account,
    client: Client,
    ann: Client,
    bob: Client,
    program: Client,
    folder: Path,
) -> AsyncIterator[MatrixGround]:
    people = {Person.ANN: ann, Person.BOB: bob, Person.PROGRAM: program}
    async with Gate(synapse.base_url).open() as gate:
        door = door_to(gate.base_url, bot, folder, by_token=True, limit=_SHORT, allow=("*",))
        yield await MatrixGround(gate, client, people, door=door).begin()


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_a_promise_of_every_platform(check: Check, ground: MatrixGround) -> None:
    await check(ground)


async def test_it_goes_with_whom_it_knows_and_hears_what_was_said_since_the_invitation(
    synapse: Synapse, bot: Account, ann: Client, bob: Client, folder: Path
) -> None:
    """Invites: from allowed people; a stranger's group is declined, and a chat of two taken."""
    door = door_to(synapse.base_url, bot, folder, allow=(ann.user_id,))
    group = await ann.room(bob.user_id)
    await bob.join(group)
    await ann.say(group, "before it came")
    await ann.invite(group, bot.name)
    await ann.say(group, "hello all")
    strange, chat = await bob.room(bot.name), await bob.room(bot.name, direct=True)
    intake = RecordingIntake()
    async with door.connect(intake):
        await intake.wait_for_tries(1)
        await bob.say(chat, "may I?")
        await intake.wait_for_tries(2)
    first, second = intake.accepted
    assert (first.text, first.source.chat_type) == ("hello all", ChatType.GROUP)
    assert (second.text, second.source.chat_type) == ("may I?", ChatType.DM)
    assert await bob.membership(strange, bot.name) == "leave"


async def test_a_gap_that_a_sync_leaves_is_filled_from_the_history(
    synapse: Synapse, bot: Account, ann: Client, client: Client, folder: Path
) -> None:
    """G1: more was said meanwhile than one answer holds."""
    room = await ann.room(bot.name, direct=True)
    await client.join(room)
    said = [f"message {number}" for number in range(13)]
    await asyncio.gather(*(ann.say(room, text) for text in said))
    intake = RecordingIntake()
    async with door_to(synapse.base_url, bot, folder, page=4).connect(intake):
        await intake.wait_for_tries(len(said))
    order = await ann.texts(room, by=ann.user_id)
    assert [each.text for each in intake.tried] == order
    assert intake.accepted[-1].cursor is not None
    assert all(each.cursor is None for each in intake.accepted[:-1])


async def test_an_edit_belongs_to_the_thread_of_what_it_changes(
    synapse: Synapse, bot: Account, ann: Client, client: Client, folder: Path
) -> None:
    room = await ann.room(bot.name, direct=True)
    await client.join(room)
    root = await ann.say(room, "root")
    thread = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
    name = await ann.say(room, "helo", **{"m.relates_to": thread})
    await ann.revise(room, name, "hello")
    await client.revise(room, name, "what Ann never said")
    intake = RecordingIntake()
    async with door_to(synapse.base_url, bot, folder).connect(intake):
        await ann.say(room, "after")
        await intake.wait_for_tries(4)
    places = [(each.text, each.source.thread_id, each.message_id) for each in intake.accepted[:3]]
    assert places == [("root", None, root), ("helo", root, name), ("hello", root, name)]
    assert intake.accepted[-1].text == "after"


async def test_a_device_is_kept_over_restarts_and_over_a_token_that_was_revoked(
    synapse: Synapse, bot: Account, ann: Client, client: Client, folder: Path
) -> None:
    """A login by a password is made once; what it gave can be read by nobody else."""
    door = door_to(synapse.base_url, bot, folder, receipts=False)
    for _ in range(2):
        async with door.connect(RecordingIntake()):
            pass
    devices = await client.call("GET", "devices")
    (ours,) = [each for each in devices["devices"] if each["display_name"] == "Holdfast"]
    assert {oct(each.stat().st_mode & 0o777) for each in folder.iterdir()} == {"0o600"}
    await client.call("POST", "logout/all", {})
    async with door.connect(RecordingIntake()):
        pass
    login = synapse.log_in(bot)
    async with Client(synapse.base_url, login) as again:
        devices = await again.call("GET", "devices")
    assert ours["device_id"] in [each["device_id"] for each in devices["devices"]]


async def test_a_wrong_password_parks_the_account_and_says_what_to_set(
    synapse: Synapse, bot: Account, tmp_path: Path
) -> None:
    wrong = Account(name=bot.name.replace("bot", "nobody"), token="")
    with pytest.raises(ConnectRefused) as told:
        async with door_to(synapse.base_url, wrong, tmp_path).connect(RecordingIntake()):
            pass
    assert "platforms.matrix.password" in told.value.remedy


async def test_people_see_that_what_they_said_was_taken(
    synapse: Synapse, bot: Account, ann: Client, client: Client, folder: Path
) -> None:
    room = await ann.room(bot.name, direct=True)
    await client.join(room)
    intake = RecordingIntake()
    async with door_to(synapse.base_url, bot, folder).connect(intake):
        said = await ann.say(room, "hello")
        await until(lambda: ann.read_by(room, bot.name, said))

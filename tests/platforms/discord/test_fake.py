"""Tests the fake Discord with the vendor's own library, discord.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import discord
import pytest
from tests.platforms.discord.fake import ANN, ANN_DM, BOB, TEXT, THREAD, FakeDiscord


class Bot(discord.Client):
    def __init__(self) -> None:
        intents = discord.Intents(guilds=True, messages=True, message_content=True)
        super().__init__(intents=intents, guild_ready_timeout=0.05)
        self.messages: asyncio.Queue[discord.Message] = asyncio.Queue()
        self.edits: asyncio.Queue[discord.RawMessageUpdateEvent] = asyncio.Queue()
        self.presses: asyncio.Queue[discord.Interaction] = asyncio.Queue()

    async def on_message(self, message: discord.Message) -> None:
        if message.author != self.user:
            self.messages.put_nowait(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.edits.put_nowait(event)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.presses.put_nowait(interaction)


@asynccontextmanager
async def running(vendor: FakeDiscord) -> AsyncIterator[Bot]:
    async with Bot() as bot:
        await bot.login(vendor.token)
        holding = asyncio.ensure_future(bot.connect())
        try:
            await bot.wait_until_ready()
            yield bot
        finally:
            await bot.close()
            await holding


async def test_the_library_understands_every_call_that_the_platform_makes(
    vendor: FakeDiscord,
) -> None:
    async with running(vendor) as bot:
        said = vendor.say("hello")
        message = await bot.messages.get()
        assert (message.content, message.author.id) == ("hello", int(ANN["id"]))
        assert message.guild is None
        one = await message.reply("hi", nonce="n1")
        assert [each["content"] for each in vendor.sent] == ["hi"]
        assert str(vendor.sent[0]["message_reference"]["message_id"]) == said["id"]
        await one.edit(content="hi!")
        assert (await bot.edits.get()).message_id == one.id
        async with message.channel.typing():
            pass
        await message.add_reaction("👀")
        assert vendor.reactions == {said["id"]: ["👀"]}
        assert bot.user is not None
        await message.remove_reaction("👀", bot.user)
        assert vendor.reactions == {said["id"]: []}
        with pytest.raises(discord.NotFound):
            await message.remove_reaction("👀", bot.user)
        vendor.revise(said, "helo")
        assert (await bot.edits.get()).message.content == "helo"
        found = [each async for each in message.channel.history(after=message, oldest_first=True)]
        assert [each.id for each in found] == [one.id]


async def test_the_library_knows_its_servers_threads_and_commands(vendor: FakeDiscord) -> None:
    async with running(vendor) as bot:
        vendor.say("to all", by=BOB, channel=THREAD)
        message = await bot.messages.get()
        assert isinstance(message.channel, discord.Thread)
        assert message.channel.parent_id == int(TEXT)
        button = {"custom_id": "/approve", "component_type": 2}
        vendor.interact(3, button, channel=TEXT)
        press = await bot.presses.get()
        await press.response.defer()
        assert vendor.callbacks == [{"id": str(press.id), "type": 6}]


async def test_the_library_resumes_and_gets_the_events_it_missed(vendor: FakeDiscord) -> None:
    async with running(vendor) as bot:
        vendor.close_connections(4000)
        vendor.sessions["s"].dispatch = None
        vendor.say("meanwhile")
        assert (await bot.messages.get()).content == "meanwhile"


async def test_the_library_understands_its_refusals(vendor: FakeDiscord) -> None:
    vendor.content_allowed = False
    async with Bot() as bot:
        await bot.login(vendor.token)
        with pytest.raises(discord.PrivilegedIntentsRequired):
            await bot.connect()
    async with Bot() as bot:
        with pytest.raises(discord.LoginFailure):
            await bot.login("another")


async def test_the_library_finds_one_message_of_one_nonce(vendor: FakeDiscord) -> None:
    async with running(vendor) as bot:
        vendor.say("hello")
        channel = (await bot.messages.get()).channel
        assert channel.id == int(ANN_DM)
        one = await channel.send("once", nonce="n1")
        assert (await channel.send("once", nonce="n1")).id == one.id
        assert vendor.texts() == ["once"]

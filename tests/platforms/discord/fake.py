"""A fake Discord: its users, channels, messages, and the gateway sessions of a bot.

Each behaviour follows https://discord.com/developers/docs; a comment names the page.
"""

import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.discord.faults import FakeDiscordError

Json = dict[str, Any]

_EPOCH = 1_420_070_400_000


def discord_user(number: str, name: str, **more: Any) -> Json:
    return {"id": number, "username": name, "discriminator": "0", "avatar": None, **more}


ANN = discord_user("1001", "ann", global_name="Ann")
BOB = discord_user("1002", "bob", global_name="Bob")
BOT = discord_user("9000", "holdfast", bot=True)
APPLICATION = "9001"
GUILD, TEXT, THREAD, ROLE = "500", "501", "502", "503"
ANN_DM, BOB_DM = "601", "602"
WHEN = "2026-01-01T00:00:00+00:00"


class GatewaySession:
    """A bot's session at the gateway: the frames sent so far, and how to send the next."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frames: list[Json] = []
        self.dispatch: Callable[[Json], None] | None = None  # None: not connected

    def add(self, event: str, data: Json) -> None:
        # topics/gateway#sending-events: `s` is the number of the event, in its session.
        frame = {"op": 0, "t": event, "s": len(self.frames) + 1, "d": data}
        self.frames.append(frame)
        if self.dispatch is not None:
            self.dispatch(frame)


class FakeDiscord:
    """Owns everything that Discord knows."""

    def __init__(self) -> None:
        self.token = "MTk4.Cl2FMQ.token"
        self.revoke_after: int | None = None  # requests until the credentials are revoked
        self.revoked = False
        self.content_allowed = True  # whether the message content intent is switched on
        self.messages: dict[str, list[Json]] = {TEXT: [], THREAD: [], ANN_DM: [], BOB_DM: []}
        self.sessions: dict[str, GatewaySession] = {}
        self.calls: list[str] = []  # "METHOD path"
        self.bodies: list[Json] = []  # of messages that were sent or changed
        self.callbacks: list[Json] = []  # to interactions
        self.commands: list[Json] = []
        self.files: dict[str, bytes] = {}
        self.largest_upload = 10 * 1024 * 1024  # bytes; reference#uploading-files
        self.reactions: dict[str, list[str]] = {}  # of the bot, by message
        self.faults: deque[FakeDiscordError | ConnectionFault] = (
            deque()
        )  # of the next messages that are sent
        self.page_faults: deque[FakeDiscordError | ConnectionFault] = (
            deque()
        )  # of the next looks into history
        self.forbidden: set[str] = set()  # channels whose history the bot may not read
        self.close_connections: Callable[[int], None] = lambda code: None  # with that close code
        self.closes_connections = False  # every line, before it is of use
        self.base_url = ""
        self.joined_at = WHEN
        self._numbers = count(1)

    def snowflake(self) -> str:
        # reference#snowflakes: milliseconds since 2015, then an increment.
        return str(((int(time.time() * 1000) - _EPOCH) << 22) | (next(self._numbers) & 0xFFF))

    def say(
        self, text: str = "", *, by: Json = ANN, channel: str | None = None, **more: Any
    ) -> Json:
        """A user writes; connected sessions get an event."""
        where = channel or (ANN_DM if by["id"] == ANN["id"] else BOB_DM)
        message = self.write(where, by, text, **more)
        self.dispatch("MESSAGE_CREATE", {**message, **self._of_guild(where, by)})
        return message

    def write(self, channel: str, by: Json, text: str, **more: Any) -> Json:
        # resources/message#message-object
        message = {
            "id": self.snowflake(),
            "channel_id": channel,
            "author": by,
            "content": text,
            "timestamp": WHEN,
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            "components": [],
            **more,
        }
        self.messages[channel].append(message)
        return message

    def revise(self, message: Json, text: str, *, stamp: str = "2026-01-01T00:01:00+00:00") -> None:
        message |= {"content": text, "edited_timestamp": stamp}
        where = message["channel_id"]
        self.dispatch("MESSAGE_UPDATE", {**message, **self._of_guild(where, message["author"])})

    def interact(self, kind: int, data: Json, *, by: Json = ANN, channel: str = ANN_DM) -> Json:
        """interactions/receiving-and-responding#interaction-object"""
        where = self.channel(channel)
        interaction = {
            "id": self.snowflake(),
            "application_id": APPLICATION,
            "type": kind,
            "token": "a-token-of-its-own",
            "version": 1,
            "channel_id": channel,
            "channel": where,
            "data": data,
            "attachment_size_limit": 10 * 2**20,
            "entitlements": [],
            "authorizing_integration_owners": {},
            **self._of_guild(channel, by),
        }
        if "guild_id" not in interaction:
            interaction["user"] = by
        else:
            interaction["member"] = {**interaction["member"], "user": by, "permissions": "0"}
        self.dispatch("INTERACTION_CREATE", interaction)
        return interaction

    def dispatch(self, event: str, data: Json) -> None:
        for session in self.sessions.values():
            session.add(event, data)

    def channel(self, number: str) -> Json:
        """resources/channel#channel-object"""
        last = self.messages[number][-1]["id"] if self.messages[number] else None
        if number in (ANN_DM, BOB_DM):
            who = ANN if number == ANN_DM else BOB
            return {"id": number, "type": 1, "last_message_id": last, "recipients": [who]}
        found = {"id": number, "name": "talk", "guild_id": GUILD, "last_message_id": last}
        if number == THREAD:
            meta = {"archived": False, "auto_archive_duration": 60, "archive_timestamp": WHEN}
            thread = {"type": 11, "parent_id": TEXT, "owner_id": ANN["id"], "thread_metadata": meta}
            return found | thread | {"member_count": 2, "message_count": 1}
        return found | {"type": 0, "position": 0, "permission_overwrites": [], "parent_id": None}

    def guild(self) -> Json:
        """topics/gateway-events#guild-create: contains channels and active threads, without
        the id of the guild."""
        role = {"name": "holdfast", "permissions": "0", "position": 1, "color": 0, "hoist": False}
        role |= {"managed": True, "mentionable": False, "colors": {"primary_color": 0}}
        without = [{**self.channel(each)} for each in (TEXT, THREAD)]
        for each in without:
            del each["guild_id"]
        return {
            "id": GUILD,
            "name": "family",
            "owner_id": ANN["id"],
            "roles": [{**role, "id": ROLE, "tags": {"bot_id": BOT["id"]}}],
            "emojis": [],
            "stickers": [],
            "features": [],
            "channels": without[:1],
            "threads": without[1:],
            "members": [],
            "member_count": 3,
            "joined_at": self.joined_at,
            "large": False,
            "unavailable": False,
        }

    def upload(self, name: str, data: bytes) -> Json:
        self.files[name] = data
        number = self.snowflake()
        url = f"{self.base_url}/attachments/{name}"
        return {"id": number, "filename": name, "size": len(data), "url": url, "proxy_url": url}

    @property
    def sent(self) -> list[Json]:
        """The bot's messages, in the order in which they came about."""
        every = [each for messages in self.messages.values() for each in messages]
        ours = [each for each in every if each["author"]["id"] == BOT["id"]]
        return sorted(ours, key=lambda message: int(message["id"]))

    def accepts(self, token: str, expected: str) -> bool:
        """Whether a request with that token is authorised. Counts it towards `revoke_after`."""
        if self.revoke_after is not None:
            if self.revoke_after == 0:
                self.revoked = True
                return False
            self.revoke_after -= 1
        return token == expected

    def delete_sent(self) -> None:
        """A moderator deletes the bot's newest message."""
        message = self.sent[-1]
        self.messages[message["channel_id"]].remove(message)

    def texts(self) -> list[str]:
        return [message["content"] for message in self.sent]

    def _of_guild(self, channel: str, by: Json) -> Json:
        """topics/gateway-events#message-create: the guild and the member are part of the event,
        and are in no message that is fetched."""
        if channel in (ANN_DM, BOB_DM):
            return {}
        member: Json = {"nick": None, "roles": [], "joined_at": WHEN, "deaf": False, "mute": False}
        return {"guild_id": GUILD, "member": {**member, "flags": 0}}

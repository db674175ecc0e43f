"""A fake Telegram: its users, chats, messages, files, and the queue of a bot's updates."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.platforms.telegram.faults import BotApiFaults
from tests.platforms.telegram.rules import found_in

Json = dict[str, Any]

TOKEN = "123456:TEST-token_of-a-pretend-bot-0000000"
_DATE = 1_790_000_000
# https://core.telegram.org/bots/api#getupdates: "Specify an empty list to receive all update types
# except chat_member, message_reaction, and message_reaction_count (default)".
_NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})


def user(number: int, name: str, *, bot: bool = False) -> Json:
    """https://core.telegram.org/bots/api#user"""
    return {"id": number, "is_bot": bot, "first_name": name, "username": f"{name.lower()}_name"}


def topic_of(message: Json) -> int | None:
    """The topic of a forum or of a channel's direct messages that holds the message."""
    direct = message.get("direct_messages_topic", {})
    found: int | None = direct.get("topic_id", message.get("message_thread_id"))
    return found


ANN = user(1001, "Ann")
BOB = user(1002, "Bob")
DEEP = "nested without end"  # in an update: replaced by a value that is
OTHER_BOT = user(2002, "Otherbot", bot=True)


class BotUpdateQueue:
    """The queue of a bot. https://core.telegram.org/bots/api#getting-updates: updates "are stored
    on the server until the bot receives them either way", "not … longer than 24 hours"."""

    def __init__(self, first: int = 700_000_001) -> None:
        self.waiting: list[Json] = []
        self.allowed: frozenset[str] = frozenset()
        self.confirmed: list[int] = []
        self.changed = asyncio.Event()
        self._next = first

    def put(self, kind: str, what: Json) -> Json:
        update = {"update_id": self._next, kind: what}
        self._next += 1
        # "this parameter doesn't affect updates created before the call" (getUpdates): what is
        # not requested is never queued, and what is queued stays.
        requested = kind in self.allowed if self.allowed else kind not in _NOT_BY_DEFAULT
        if requested:
            self.waiting.append(update)
            self.changed.set()
        return update

    def restart(self, *, at: int) -> None:
        """https://core.telegram.org/bots/api#update: "If there are no new updates for at least a
        week, then identifier of the next update will be chosen randomly"."""
        self._next = at

    def confirm(self, offset: int) -> None:
        """getUpdates: "An update is considered confirmed as soon as getUpdates is called with an
        offset higher than its update_id"; a negative one is "starting from -offset update from
        the end of the updates queue. All previous updates will be forgotten"."""
        if offset < 0:
            offset = ([0, *(each["update_id"] for each in self.waiting)])[offset:][0]
        if offset > self._next:
            # tdlib/td, TQueue::get: "Specified from_id is in the future", upon which
            # Client::do_get_updates begins with what there is, and forgets nothing.
            return
        gone = [each["update_id"] for each in self.waiting if each["update_id"] < offset]
        self.confirmed.extend(gone)
        self.waiting = [each for each in self.waiting if each["update_id"] >= offset]


class FakeTelegram:
    """Owns the state of Telegram. Tests write as its users; `FakeBotApi` serves the bot."""

    def __init__(self, *, token: str = TOKEN) -> None:
        self.token = token
        self.revoke_after: int | None = None  # requests until the credentials are revoked
        self.revoked = False
        # https://core.telegram.org/bots/api#getme
        self.me = {
            **user(123456, "Holdfast", bot=True),
            "username": "holdfast_bot",
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }
        self.chats: dict[int, Json] = {}
        self.topics: set[tuple[int, int]] = set()
        self.direct_topics: set[tuple[int, int]] = set()
        self.blocked: set[int] = set()
        self.messages: dict[tuple[int, int], Json] = {}
        self.sent: list[Json] = []  # by the bot, with edits applied
        self.edits: list[Json] = []
        self.reactions: dict[tuple[int, int], list[str]] = {}  # of the bot, by message
        self.actions: list[Json] = []
        self.answered: list[Json] = []  # callback queries
        self.commands: list[Json] = []
        self.menus: dict[str, list[Json]] = {}  # by language code; "": for all others
        self.files: dict[str, tuple[str, bytes]] = {}
        self.largest_upload = 50 * 1024 * 1024  # bytes
        self.calls: list[str] = []  # methods, in the order in which they came
        self.updates = BotUpdateQueue()
        self.faults = BotApiFaults()
        self.webhook: Json = {"url": ""}
        self.proxies: dict[str, str] = {}  # from an https address to where it leads
        self.message_posted = asyncio.Event()
        self._next_message = 1

    def dm(self, person: Json = ANN) -> Json:
        """https://core.telegram.org/bots/api#chat: a private chat has the id of its person."""
        names = {key: person[key] for key in ("first_name", "username")}
        return self._chat({"id": person["id"], "type": "private", **names})

    def group(self, number: int = -100_500, *, forum: bool = False) -> Json:
        more = {"is_forum": True} if forum else {}
        return self._chat({"id": number, "type": "supergroup", "title": "The family", **more})

    def direct_messages(self, number: int = -100_700) -> Json:
        """The direct messages of a channel: https://core.telegram.org/bots/api#chat, "can be either
        private, group, supergroup or channel"; `is_direct_messages`: "True, if the chat is the
        direct messages chat of a channel". Bot API 9.2: "identify supergroups that are used as
        channel direct messages chats"."""
        more = {"type": "supergroup", "is_direct_messages": True}
        return self._chat({"id": number, "title": "News", **more})

    def delete_topic(self, chat: Json, topic: int) -> None:
        """An administrator deletes a topic, "along with all its messages"
        (https://core.telegram.org/bots/api#deleteforumtopic)."""
        self.topics.discard((chat["id"], topic))
        self.direct_topics.discard((chat["id"], topic))
        for key, message in list(self.messages.items()):
            if key[0] == chat["id"] and topic_of(message) == topic:
                del self.messages[key]

    def channel(self, number: int = -100_900) -> Json:
        return self._chat({"id": number, "type": "channel", "title": "News"})

    def _chat(self, chat: Json) -> Json:
        return self.chats.setdefault(chat["id"], chat)

    def say(
        self,
        text: str = "",
        *,
        by: Json = ANN,
        chat: Json | None = None,
        topic: int | None = None,
        direct: Json | None = None,
        reply_to: Json | None = None,
        album: str | None = None,
        **content: Any,
    ) -> Json:
        """A person writes; `direct`: in the topic that this person has in a channel's direct
        messages. `content` is what the message holds besides: photo, document, voice.
        https://core.telegram.org/bots/api#message: text of a media message is its `caption`."""
        chat = chat or self.dm(by)
        words = ("caption", "caption_entities") if content else ("text", "entities")
        message = {**self._new(chat, by), **content}
        if text:
            message[words[0]] = text
        if found := found_in(text):
            message[words[1]] = found
        if topic is not None:
            self.topics.add((chat["id"], topic))
            message |= {"message_thread_id": topic, "is_topic_message": True}
        if direct is not None:
            # https://core.telegram.org/bots/api#directmessagestopic: `user` is "information about
            # the user that created the topic. Currently, it is always present".
            self.direct_topics.add((chat["id"], direct["id"]))
            message["direct_messages_topic"] = {"topic_id": direct["id"], "user": direct}
        if reply_to is not None:
            # "the Message object in this field will not contain further reply_to_message fields".
            quoted = {key: value for key, value in reply_to.items() if key != "reply_to_message"}
            message["reply_to_message"] = quoted
        if album is not None:
            message["media_group_id"] = album
        self.messages[chat["id"], message["message_id"]] = message
        self.updates.put("channel_post" if chat["type"] == "channel" else "message", message)
        return message

    def revise(self, message: Json, text: str) -> Json:
        """A person edits: another update, about the same message."""
        words = "caption" if "caption" in message else "text"
        edited = {**message, words: text, "edit_date": _DATE + 5}
        self.messages[message["chat"]["id"], message["message_id"]] = edited
        self.updates.put("edited_message", edited)
        return edited

    def click(self, message: Json, data: str, *, by: Json = ANN) -> Json:
        """https://core.telegram.org/bots/api#callbackquery"""
        query = {"id": f"q{self._number()}", "from": by, "message": message, "data": data}
        return self.updates.put("callback_query", {**query, "chat_instance": "1"})

    def upload(self, name: str, data: bytes, *, mime: str = "application/octet-stream") -> Json:
        """A file that people attach. https://core.telegram.org/bots/api#document"""
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = (f"documents/{len(self.files)}-{name}", data)
        about = {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data)}
        return {**about, "file_name": name, "mime_type": mime}

    def picture(self, data: bytes) -> Sequence[Json]:
        """https://core.telegram.org/bots/api#message: `photo` is "available sizes of the photo"."""
        about = self.upload("photo.jpg", data)
        size = {key: about[key] for key in ("file_id", "file_unique_id", "file_size")}
        small = {**size, "file_id": "thumbnail", "width": 90, "height": 90, "file_size": 9}
        return [small, {**size, "width": 800, "height": 800}]

    def post(self, chat: Json, content: Json) -> Json:
        """The bot posts a message to a chat."""
        message = self._new(chat, self.me) | content
        self.messages[chat["id"], message["message_id"]] = message
        self.sent.append(message)
        self.message_posted.set()
        return message

    def replace_message(self, message: Json, content: Json) -> Json:
        old = next(each for each in self.sent if each["message_id"] == message["message_id"])
        unchanged = {
            key: value for key, value in old.items() if key not in ("entities", "reply_markup")
        }
        new = {**unchanged, **content, "edit_date": _DATE + 9}
        self.sent[self.sent.index(old)] = new
        self.messages[new["chat"]["id"], new["message_id"]] = new
        self.edits.append(new)
        self.message_posted.set()
        return new

    def accepts(self, token: str, expected: str) -> bool:
        """Whether a request with that token is authorised. Counts it towards `revoke_after`."""
        if self.revoke_after is not None:
            if self.revoke_after == 0:
                self.revoked = True
                return False
            self.revoke_after -= 1
        return token == expected

    def delete_sent(self) -> None:
        """An administrator deletes the bot's newest message."""
        message = self.sent.pop()
        del self.messages[message["chat"]["id"], message["message_id"]]

    def texts(self) -> list[str]:
        """What the bot's messages say now."""
        return [str(each.get("text", each.get("caption", ""))) for each in self.sent]

    def _new(self, chat: Json, by: Json) -> Json:
        number = self._number()
        message = {"message_id": number, "from": by, "chat": chat, "date": _DATE + number}
        if chat["type"] == "channel":  # "from … empty for messages sent to channels"
            message = {"sender_chat": chat, **{k: v for k, v in message.items() if k != "from"}}
        self.messages[chat["id"], number] = message
        return message

    def _number(self) -> int:
        number, self._next_message = self._next_message, self._next_message + 1
        return number

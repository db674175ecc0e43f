"""A fake Slack: a workspace with users, chats, messages, files, and an app in it."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

from tests.platforms.slack.faults import WebApiFaults

Json = dict[str, Any]

TOKEN = "xoxb-1-2-pretend"
APP_TOKEN = "xapp-1-A1-2-pretend"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
TEAM, BOT_USER, BOT = "T0TEAM", "U0BOT", "B0BOT"
ANN, BOB = "U0ANN", "U0BOB"
CHANNEL = "C0FAMILY"
DEEP = "nested without end"  # in a message: replaced by a value that is
SCOPES = (
    "app_mentions:read,channels:history,chat:write,commands,files:read,files:write,groups:history,"
    "im:history,mpim:history,reactions:write,users:read"
)


class FakeSlack:
    """Owns the state of Slack. Tests write as its users; `FakeWebApi` serves the app."""

    def __init__(self) -> None:
        self.token, self.app_token = TOKEN, APP_TOKEN
        self.revoke_after: int | None = None  # requests until the credentials are revoked
        self.revoked = False
        self.scopes = SCOPES
        self.names = {ANN: "Ann", BOB: "Bob"}
        self.locales = {ANN: "de-DE", BOB: "en-US"}
        self.chats = {CHANNEL: "channel", dm(ANN): "im", dm(BOB): "im"}
        self.messages: list[Json] = []  # of all users, with edits applied
        self.reactions: dict[tuple[str, str], list[str]] = {}  # of the app, by chat and message
        self.files: dict[str, Json] = {}
        self.largest_upload = 2**30  # bytes
        self.history_go: dict[str, asyncio.Event] = {}  # histories that are answered only then
        self.contents: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.faults = WebApiFaults()
        self.waiting: list[Json] = []  # envelopes that are not acknowledged yet
        self.acks: list[Json] = []
        self.sockets = 0
        self.changed = asyncio.Event()
        self._numbers = itertools.count(1)

    def say(
        self,
        text: str = "",
        *,
        by: str = ANN,
        chat: str | None = None,
        thread: str | None = None,
        files: Sequence[Json] = (),
        **more: Any,
    ) -> Json:
        """A person writes. https://docs.slack.dev/reference/events/message; with a file its
        `subtype` is `file_share`, in a thread it has `thread_ts` and `parent_user_id`."""
        message: Json = {"type": "message", "user": by, "text": text, "ts": self._ts(), **more}
        message["channel"] = chat or dm(by)
        if files:
            message |= {"subtype": "file_share", "files": list(files)}
        if thread is not None:
            root = next((each for each in self.messages if each["ts"] == thread), {})
            message |= {"thread_ts": thread, "parent_user_id": root.get("user")}
        self.messages.append(message)
        self._dispatch(message)
        return message

    def _dispatch(self, message: Json) -> None:
        """https://docs.slack.dev/reference/events/app_mention: it is no `message` event, and has no
        `channel_type`; an app that has asked for both gets one message twice. "Messages sent to
        your app in direct message conversations are not dispatched via app_mention"."""
        kind = self.chats[message["channel"]]
        if kind != "im" and f"<@{BOT_USER}>" in message["text"]:
            self.event({**message, "type": "app_mention"})
        self.event({**message, "channel_type": kind})

    def revise(self, message: Json, text: str, *, edited: bool = True) -> None:
        """https://docs.slack.dev/reference/events/message/message_changed: the message is nested,
        and `ts` of the event is its own. Without an edit by a person (a link was unfurled), there
        is no `edited`."""
        old = {key: value for key, value in message.items() if key != "channel"}
        message["text"] = text
        new = {**old, "text": text}
        if edited:
            new["edited"] = {"user": message["user"], "ts": self._ts()}
        chat = message["channel"]
        what = {"channel": chat, "channel_type": self.chats[chat], "ts": self._ts()}
        self.event(
            {"type": "message", "subtype": "message_changed", "hidden": True, **what}
            | {"message": new, "previous_message": old}
        )

    def event(self, event: Json) -> Json:
        """https://docs.slack.dev/apis/events-api#event-type-structure: "event_id: a unique
        identifier for this specific event, globally unique across all workspaces"."""
        outer = {"token": "z", "team_id": TEAM, "api_app_id": "A0APP", "type": "event_callback"}
        number = next(self._numbers)
        return self._envelope(
            "events_api",
            {**outer, "event": event, "event_id": f"Ev{number:08}", "event_time": number},
        )

    def press(self, message: Json, value: str, *, by: str = ANN) -> Json:
        """https://docs.slack.dev/reference/interaction-payloads/block_actions-payload"""
        chat = message["channel"]
        action = {"type": "button", "action_id": "choice-0", "block_id": "b", "value": value}
        return self._envelope(
            "interactive",
            {
                "type": "block_actions",
                "user": {"id": by, "username": self.names[by].lower(), "team_id": TEAM},
                "api_app_id": "A0APP",
                "container": {"type": "message", "message_ts": message["ts"], "channel_id": chat},
                "trigger_id": f"12321.{next(self._numbers)}",
                "team": {"id": TEAM, "domain": "family"},
                "channel": {"id": chat, "name": "directmessage"},
                "message": {key: value for key, value in message.items() if key != "channel"},
                "response_url": "https://hooks.slack.com/actions/T0TEAM/1/x",
                "actions": [{**action, "action_ts": self._ts()}],
            },
        )

    def command(self, command: str, text: str = "", *, by: str = ANN, chat: str = "") -> Json:
        """https://docs.slack.dev/interactivity/implementing-slash-commands#app_command_handling"""
        return self._envelope(
            "slash_commands",
            {
                "token": "z",
                "team_id": TEAM,
                "team_domain": "family",
                "channel_id": chat or dm(by),
                "channel_name": "directmessage",
                "user_id": by,
                "user_name": self.names[by].lower(),
                "command": command,
                "text": text,
                "api_app_id": "A0APP",
                "response_url": "https://hooks.slack.com/commands/T0TEAM/1/x",
                "trigger_id": f"13345224609.{next(self._numbers)}",
            },
        )

    def _envelope(self, kind: str, payload: Json) -> Json:
        """https://docs.slack.dev/apis/events-api/using-socket-mode#events"""
        envelope = {
            "envelope_id": f"e-{next(self._numbers)}",
            "type": kind,
            "payload": payload,
            "accepts_response_payload": kind != "events_api",
        }
        self.waiting.append(envelope)
        self.changed.set()
        return envelope

    def upload(self, name: str, data: bytes, base_url: str, **more: Any) -> Json:
        """A file that people attach. https://docs.slack.dev/reference/objects/file-object"""
        number = f"F{next(self._numbers):08}"
        address = f"{base_url.removesuffix('/api')}/files-pri/{number}"
        about = {"id": number, "name": name, "title": name, "size": len(data), "mode": "hosted"}
        self.contents[number] = data
        self.files[number] = {**about, "url_private": address, "url_private_download": address}
        return {**self.files[number], **more}

    def acknowledge(self, answer: Json) -> None:
        gone = [each for each in self.waiting if each["envelope_id"] == answer["envelope_id"]]
        for each in gone:
            self.waiting.remove(each)
            self.acks.append({**each, "answer": answer})

    def post(self, chat: str, content: Json) -> Json:
        """The app posts a message to a chat."""
        message = {
            "type": "message",
            "user": BOT_USER,
            "bot_id": BOT,
            "channel": chat,
            "ts": self._ts(),
            **content,
        }
        self.messages.append(message)
        return message

    def sent(self) -> list[Json]:
        return [each for each in self.messages if each.get("bot_id") == BOT]

    def accepts(self, token: str, expected: str) -> bool:
        """Whether a request with that token is authorised. Counts it towards `revoke_after`."""
        if self.revoke_after is not None:
            if self.revoke_after == 0:
                self.revoked = True
                return False
            self.revoke_after -= 1
        return token == expected

    def delete_sent(self) -> None:
        """An administrator deletes the app's newest message."""
        self.messages.remove(self.sent()[-1])

    def texts(self) -> list[str]:
        """What the app's messages say now."""
        return [each["text"] for each in self.sent()]

    def tick(self) -> None:
        """A second passes without a message."""
        next(self._numbers)

    def _ts(self) -> str:
        """https://docs.slack.dev/messaging/retrieving-messages#individual_messages: "unique to
        each message in a conversation"; seconds, and six digits."""
        number = next(self._numbers)
        return f"{1_790_000_000 + number}.{number:06}"


def dm(person: str) -> str:
    """The chat of two that the app has with a person: its id begins with a D."""
    return f"D{person[1:]}"


def written(answer: Json) -> str:
    """Python's own writer nests no deeper than its reader; a vendor's may."""
    return json.dumps(answer).replace(json.dumps(DEEP), "[" * 20_000 + "]" * 20_000)

"""The Bot API of the fake Telegram: the methods that bots call, over real HTTP, as documented."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.telegram.fake import DEEP, FakeTelegram, Json
from tests.platforms.telegram.fake_polling import FakePolling
from tests.platforms.telegram.fake_webhook import FakeWebhook
from tests.platforms.telegram.faults import BotApiError, bad
from tests.platforms.telegram.rules import (
    check_caption,
    check_commands,
    check_markup,
    check_text,
)

Args = Mapping[str, Any]
# https://core.telegram.org/bots/api#getfile: "bots can download files of up to 20MB in size".
LARGEST_DOWNLOAD = 20 * 1024 * 1024
# https://core.telegram.org/bots/api#sending-files: "10 MB max size for photos, 50 MB for other
# files".
LARGEST_UPLOAD = {
    "photo": 10 * 1024 * 1024,
    "document": 50 * 1024 * 1024,
    "voice": 50 * 1024 * 1024,
}
_STRUCTURED = frozenset(
    {"entities", "caption_entities", "reply_parameters", "reply_markup", "commands"}
    | {"allowed_updates", "link_preview_options", "reaction"}
)
# https://core.telegram.org/bots/api#reactiontypeemoji, some of them.
_REACTIONS = [{"type": "emoji", "emoji": each} for each in ("👍", "👎", "❤", "🔥", "👀", "🤔")]


class FakeBotApi:
    """Serves one fake Telegram to its bot. Method names are case-insensitive."""

    def __init__(self, vendor: FakeTelegram) -> None:
        self._vendor = vendor
        self._polling = FakePolling(vendor)
        self._webhook = FakeWebhook(vendor, self._polling)
        self._methods: dict[str, Callable[[Args], Awaitable[Any]]] = {
            "getme": self._get_me,
            "getupdates": self._polling.get_updates,
            "setwebhook": self._webhook.set,
            "deletewebhook": self._webhook.delete,
            "getwebhookinfo": self._webhook.info,
            "sendmessage": self._send_message,
            "editmessagetext": self._edit_message_text,
            "deletemessage": self._delete_message,
            "setmessagereaction": self._set_message_reaction,
            "sendchataction": self._send_chat_action,
            "answercallbackquery": self._answer_callback_query,
            "getfile": self._get_file,
            "sendphoto": lambda args: self._send_file(args, "photo"),
            "senddocument": lambda args: self._send_file(args, "document"),
            "sendvoice": lambda args: self._send_file(args, "voice"),
            "setmycommands": self._set_my_commands,
        }

    @asynccontextmanager
    async def serving(self, *, port: int = 0) -> AsyncIterator[str]:
        """The address, to be used in the place of https://api.telegram.org."""
        app = web.Application(client_max_size=60 * 1024 * 1024)
        # "We support GET and POST HTTP methods" (#making-requests).
        app.router.add_route("*", "/bot{token}/{method}", self._call)
        app.router.add_get("/file/bot{token}/{path:.+}", self._download)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await self._webhook.close()
            await runner.cleanup()

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"].lower()
        self._vendor.calls.append(method)
        if not self._vendor.accepts(request.match_info["token"], self._vendor.token):
            return _answer(BotApiError(401, "Unauthorized"))
        if method not in self._methods:
            return _answer(BotApiError(404, "Not Found"))
        fault = self._vendor.faults.next(method)
        if isinstance(fault, BotApiError):
            return _answer(fault)
        if fault is ConnectionFault.RESET_BEFORE:
            return _reset(request)
        try:
            result = await self._methods[method](await _arguments(request))
        except BotApiError as error:
            return _answer(error)
        return await _broken(request, fault) or _answer(result)

    async def _get_me(self, args: Args) -> Json:
        return self._vendor.me

    async def _send_message(self, args: Args) -> Json:
        entities = args.get("entities") or []
        check_text(str(args.get("text", "")), entities)
        content = {"text": str(args["text"]), **({"entities": entities} if entities else {})}
        return self._vendor.post(self._chat(args), content | self._placed(args))

    async def _edit_message_text(self, args: Args) -> Json:
        """https://core.telegram.org/bots/api#editmessagetext; without `reply_markup` the buttons
        go."""
        entities = args.get("entities") or []
        check_text(str(args.get("text", "")), entities)
        check_markup(args.get("reply_markup"))
        message = self._known(args, "message to edit not found")
        if message["from"]["id"] != self._vendor.me["id"]:
            raise bad("message can't be edited")
        new: Json = {"text": str(args["text"])}
        for key, value in (("entities", entities), ("reply_markup", args.get("reply_markup"))):
            new |= {key: value} if value else {}
        if new == {
            key: message[key] for key in (*new, "entities", "reply_markup") if key in message
        }:
            # tdlib/telegram-bot-api, Client::fail_query_with_error, MESSAGE_NOT_MODIFIED.
            raise bad(
                "message is not modified: specified new message content and reply markup are "
                "exactly the same as a current content and reply markup of the message"
            )
        return self._vendor.replace_message(message, new)

    async def _delete_message(self, args: Args) -> bool:
        message = self._known(args, "message to delete not found")
        del self._vendor.messages[message["chat"]["id"], message["message_id"]]
        self._vendor.sent = [each for each in self._vendor.sent if each is not message]
        return True

    async def _send_chat_action(self, args: Args) -> bool:
        """https://core.telegram.org/bots/api#sendchataction: "Channel chats and channel direct
        messages chats aren't supported"."""
        if self._chat(args).get("is_direct_messages"):
            raise bad("chat actions aren't supported in the chat")
        if args.get("action") not in ("typing", "upload_photo", "upload_document", "record_voice"):
            raise bad("wrong parameter action in request")
        self._vendor.actions.append(dict(args))
        return True

    async def _set_message_reaction(self, args: Args) -> bool:
        """https://core.telegram.org/bots/api#setmessagereaction: "A JSON-serialized list of
        reaction types to set on the message. Currently, as non-premium users, bots can set up to
        one reaction per message"; an empty list takes it back. #reactiontypeemoji lists which."""
        message = self._known(args, "message to react not found")
        reaction = args.get("reaction") or []
        allowed = all(each in _REACTIONS for each in reaction)
        if len(reaction) > 1 or not allowed:
            raise bad("REACTION_INVALID")
        message_key = message["chat"]["id"], message["message_id"]
        self._vendor.reactions[message_key] = [each["emoji"] for each in reaction]
        return True

    async def _answer_callback_query(self, args: Args) -> bool:
        """https://core.telegram.org/bots/api#answercallbackquery: `text` of "0-200 characters"."""
        if not str(args.get("callback_query_id", "")).startswith("q"):
            raise bad("query is too old and response timeout expired or query ID is invalid")
        if len(str(args.get("text", ""))) > 200:
            raise bad("MESSAGE_TOO_LONG")
        self._vendor.answered.append(dict(args))
        return True

    async def _get_file(self, args: Args) -> Json:
        file_id = str(args.get("file_id", ""))
        if file_id not in self._vendor.files:
            raise bad("invalid file_id")
        path, data = self._vendor.files[file_id]
        if len(data) > LARGEST_DOWNLOAD:
            raise bad("file is too big")  # tdlib/telegram-bot-api, Client::do_get_file
        about = {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data)}
        return {**about, "file_path": path}

    async def _download(self, request: web.Request) -> web.Response:
        """#getfile: "https://api.telegram.org/file/bot<token>/<file_path>"."""
        files = {path: data for path, data in self._vendor.files.values()}
        data = files.get(request.match_info["path"])
        if request.match_info["token"] != self._vendor.token or data is None:
            return _answer(BotApiError(404, "Not Found"))
        return web.Response(body=data, content_type="application/octet-stream")

    async def _send_file(self, args: Args, kind: str) -> Json:
        """https://core.telegram.org/bots/api#sending-files: posted "using multipart/form-data in
        the usual way that files are uploaded via the browser"."""
        part = args.get(kind)
        if not isinstance(part, web.FileField):
            raise bad(f"there is no {kind} in the request")
        with part.file:
            data = part.file.read()
        if len(data) > min(LARGEST_UPLOAD[kind], self._vendor.largest_upload):
            raise BotApiError(413, "Request Entity Too Large")
        caption, entities = str(args.get("caption", "")), args.get("caption_entities") or []
        check_caption(caption, entities)
        about = self._vendor.upload(part.filename, data, mime=part.content_type)
        if kind == "photo":
            content: Json = {"photo": [{**about, "width": 1, "height": 1}]}
        else:
            content = {kind: {**about, **({"duration": 1} if kind == "voice" else {})}}
        if caption:
            content["caption"] = caption
        if entities:
            content["caption_entities"] = entities
        return self._vendor.post(self._chat(args), content | self._placed(args))

    async def _set_my_commands(self, args: Args) -> bool:
        """https://core.telegram.org/bots/api#setmycommands: the language is "a two-letter ISO 639-1
        language code", and may be empty."""
        check_commands(args.get("commands") or [])
        language = args.get("language_code") or ""
        if language and not re.fullmatch("[a-z]{2}", language):
            raise bad("invalid language code specified")
        self._vendor.menus[language] = list(args.get("commands") or [])
        self._vendor.commands = self._vendor.menus.get("", [])
        return True

    def _chat(self, args: Args) -> Json:
        chat = self._vendor.chats.get(int(args.get("chat_id") or 0))
        if chat is None:
            raise bad("chat not found")
        if chat["id"] in self._vendor.blocked:
            raise BotApiError(403, "Forbidden: bot was blocked by the user")
        return chat

    def _placed(self, args: Args) -> Json:
        """The topic, the reply and the buttons of a message.
        https://core.telegram.org/bots/api#replyparameters: `allow_sending_without_reply`: "if the
        message should be sent even if the specified message to be replied to is not found"."""
        chat, placed = self._chat(args), {}
        check_markup(args.get("reply_markup"))
        if args.get("reply_markup"):
            placed["reply_markup"] = args["reply_markup"]
        if topic := int(args.get("message_thread_id") or 0):
            if (chat["id"], topic) not in self._vendor.topics:
                raise bad("message thread not found")
            placed |= {"message_thread_id": topic, "is_topic_message": True}
        placed |= self._direct_topic(args)
        if reply := args.get("reply_parameters"):
            replied = self._vendor.messages.get((chat["id"], int(reply["message_id"])))
            if replied is not None:
                placed["reply_to_message"] = replied
            elif not reply.get("allow_sending_without_reply"):
                raise bad("message to be replied not found")
        return placed

    def _direct_topic(self, args: Args) -> Json:
        """https://core.telegram.org/bots/api#sendmessage: `direct_messages_topic_id` is "required
        if the message is sent to a direct messages chat". The words are those of tdlib/td,
        MessageTopic::get_message_topic and get_send_message_topic. A reply without it is in the
        topic of the message that it answers."""
        chat = self._chat(args)
        topic = int(args.get("direct_messages_topic_id") or 0)
        if not topic and not chat.get("is_direct_messages"):
            return {}
        if not chat.get("is_direct_messages"):
            raise bad("chat is not an administered channel direct messages chat")
        if topic and (chat["id"], topic) not in self._vendor.direct_topics:
            raise bad("topic not found")
        reply = args.get("reply_parameters") or {}
        replied = self._vendor.messages.get((chat["id"], int(reply.get("message_id") or 0)), {})
        topic = topic or replied.get("direct_messages_topic", {}).get("topic_id", 0)
        if not topic:
            raise bad("channel direct messages topic must be specified")
        return {"direct_messages_topic": {"topic_id": topic}}

    def _known(self, args: Args, or_else: str) -> Json:
        message_key = self._chat(args)["id"], int(args.get("message_id") or 0)
        if message_key not in self._vendor.messages:
            raise bad(or_else)
        return self._vendor.messages[message_key]


async def _arguments(request: web.Request) -> Args:
    """#making-requests: "URL query string, application/x-www-form-urlencoded, application/json
    (except for uploading files), multipart/form-data (use to upload files)"; objects in a form
    are "JSON-serialized"."""
    if request.content_type == "application/json":
        body = await request.text()
        return {**request.query, **(json.loads(body) if body else {})}
    given: dict[str, Any] = {**request.query, **await request.post()}
    for name in _STRUCTURED & given.keys():
        given[name] = json.loads(given[name])
    return given


async def _broken(request: web.Request, fault: ConnectionFault | None) -> web.Response | None:
    match fault:
        case ConnectionFault.RESET_AFTER:
            return _reset(request)
        case ConnectionFault.SILENT_AFTER:
            await asyncio.sleep(3600)
        case ConnectionFault.ERROR_AFTER:
            return web.Response(status=502, text="<html>502 Bad Gateway</html>")
    return None


def _reset(request: web.Request) -> web.Response:
    assert request.transport is not None, "the client is connected"
    request.transport.abort()
    return web.Response()


def _answer(result: Any) -> web.Response:
    if isinstance(result, BotApiError):
        return web.json_response(result.body, status=result.code)
    return web.json_response({"ok": True, "result": result}, dumps=_written)


def _written(answer: object) -> str:
    """Python's own writer nests no deeper than its reader; a vendor's may."""
    return json.dumps(answer).replace(json.dumps(DEEP), "[" * 20_000 + "]" * 20_000)

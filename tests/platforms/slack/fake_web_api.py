"""The Web API of the fake Slack: the methods that apps call, over real HTTP, as documented."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.slack.fake import BOT, BOT_USER, TEAM, FakeSlack, Json, written
from tests.platforms.slack.fake_socket_mode import FakeSocketMode
from tests.platforms.slack.faults import SlackError
from tests.platforms.slack.rules import check_blocks, check_message

Args = Mapping[str, Any]
EMOJI = {"eyes": "👀", "thumbsup": "👍"}
_STRUCTURED = frozenset({"blocks", "files", "metadata"})


class FakeWebApi:
    """Serves one fake Slack to its app."""

    def __init__(self, vendor: FakeSlack) -> None:
        self._vendor = vendor
        self.sockets = FakeSocketMode(vendor)
        self._base = ""
        self._methods: dict[str, Callable[[Args], Awaitable[Json]]] = {
            "auth.test": self._auth_test,
            "apps.connections.open": self._connections_open,
            "chat.postMessage": self._post_message,
            "chat.update": self._update,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "files.getUploadURLExternal": self._upload_url,
            "files.completeUploadExternal": self._complete_upload,
            "files.info": self._file_info,
            "reactions.add": self._react,
            "reactions.remove": self._unreact,
            "users.info": self._user_info,
        }

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The address, to be used in the place of https://slack.com/api."""
        app = web.Application(client_max_size=60 * 1024 * 1024)
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_get("/link", self.sockets.serve)
        app.router.add_post("/upload/v1/{id}", self._uploaded)
        app.router.add_get("/files-pri/{id}", self._download)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield f"{self._base}/api"
        finally:
            await self.sockets.close()
            await runner.cleanup()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self._vendor.calls.append(method)
        fault = self._vendor.faults.next(method)
        try:
            if isinstance(fault, SlackError):
                raise fault
            if method not in self._methods:
                raise SlackError("unknown_method")
            self._authorise(request, method)
            result = await self._methods[method](await _arguments(request))
        except SlackError as error:
            return web.json_response(error.body, status=error.status, headers=error.headers)
        # https://docs.slack.dev/authentication/installing-with-oauth#inspecting: "X-OAuth-Scopes:
        # lists the OAuth scopes your token has authorized".
        headers = {"X-OAuth-Scopes": self._vendor.scopes}
        answer = written({"ok": True, **result})
        return _broken(request, fault) or web.json_response(text=answer, headers=headers)

    def _authorise(self, request: web.Request, method: str) -> None:
        """https://docs.slack.dev/reference/methods/apps.connections.open: an app-level token, "in
        the HTTP Authorization header"; the others take that of the bot."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        of_app = method == "apps.connections.open"
        if not given:
            raise SlackError("not_authed")
        expected = self._vendor.app_token if of_app else self._vendor.token
        if not self._vendor.accepts(given, expected):
            raise SlackError("invalid_auth")

    async def _auth_test(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/auth.test"""
        who = {"user": "holdfast", "user_id": BOT_USER, "bot_id": BOT, "team_id": TEAM}
        return {"url": "https://family.slack.com/", "team": "Family", **who}

    async def _connections_open(self, args: Args) -> Json:
        return {"url": f"{self._base.replace('http', 'ws', 1)}/link?ticket=1&app_id=A0APP"}

    async def _post_message(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/chat.postMessage"""
        check_message(args)
        fields = ("text", "blocks", "thread_ts", "metadata")
        content = {key: args[key] for key in fields if args.get(key) is not None}
        message = self._vendor.post(self._chat(args), content)
        return {"channel": message["channel"], "ts": message["ts"], "message": message}

    async def _update(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/chat.update: `message_not_found`, and
        `cant_update_message` where it is not the app's own; what it says is put in its place."""
        check_message(args)
        chat = self._chat(args)
        found = [m for m in self._vendor.messages if (m["channel"], m["ts"]) == (chat, args["ts"])]
        if not found:
            raise SlackError("message_not_found")
        if found[0].get("bot_id") != BOT:
            raise SlackError("cant_update_message")
        found[0] |= {"text": args["text"], "blocks": args.get("blocks") or []}
        return {"channel": chat, "ts": args["ts"], "text": args["text"]}

    async def _history(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/conversations.history: the latest first, without
        replies in threads; metadata where `include_all_metadata` is set; pages by `cursor`."""
        chat = self._chat(args)
        if (go := self._vendor.history_go.get(chat)) is not None:
            await go.wait()
        said = [each for each in self._vendor.messages if each["channel"] == chat]
        return self._page([m for m in said if m.get("thread_ts") in (None, m["ts"])][::-1], args)

    async def _replies(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/conversations.replies: the message that opened
        the thread, and what follows, the earliest first."""
        chat, thread = self._chat(args), args["ts"]
        said = [each for each in self._vendor.messages if each["channel"] == chat]
        found = [each for each in said if thread in (each["ts"], each.get("thread_ts"))]
        if not found:
            raise SlackError("thread_not_found")
        return self._page(found, args)

    def _page(self, messages: list[Json], args: Args) -> Json:
        """https://docs.slack.dev/apis/web-api/pagination: an empty `next_cursor` ends it. `oldest`:
        "Only messages after this Unix timestamp will be included in results"; of a thread the
        message that opened it is given all the same."""
        oldest, root = float(args.get("oldest") or 0), args.get("ts")
        messages = [m for m in messages if float(m["ts"]) > oldest or m["ts"] == root]
        # .../methods/conversations.history#examples: a message there does not name its channel.
        messages = [{k: v for k, v in each.items() if k != "channel"} for each in messages]
        first, number = int(args.get("cursor") or 0), int(args.get("limit") or 100)
        shown = messages[first : first + number]
        if str(args.get("include_all_metadata", "")).lower() not in ("true", "1"):
            shown = [{k: v for k, v in each.items() if k != "metadata"} for each in shown]
        more = first + number < len(messages)
        following = str(first + number) if more else ""
        metadata = {"response_metadata": {"next_cursor": following}}
        return {"messages": shown, "has_more": more, **metadata}

    async def _upload_url(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/files.getUploadURLExternal"""
        if not args.get("filename") or not int(args.get("length") or 0):
            raise SlackError("invalid_arguments")
        if int(args["length"]) > self._vendor.largest_upload:
            raise SlackError("file_upload_size_restricted")
        about = self._vendor.upload(str(args["filename"]), b"", f"{self._base}/api")
        number = about["id"]
        return {"upload_url": f"{self._base}/upload/v1/{number}", "file_id": number}

    async def _uploaded(self, request: web.Request) -> web.Response:
        """https://docs.slack.dev/messaging/working-with-files#uploading_files: the bytes are posted
        as they are; "OK - n" with 200."""
        data = await request.read()
        self._vendor.contents[request.match_info["id"]] = data
        return web.Response(text=f"OK - {len(data)}")

    async def _complete_upload(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/files.completeUploadExternal: "If the
        initial_comment field is provided, the blocks field is ignored"; without a channel "the file
        will be private"."""
        files = [self._known_file(each["id"]) for each in args["files"]]
        if args.get("channel_id"):
            blocks = args.get("blocks") or []
            check_blocks(blocks)
            content = {"text": args.get("initial_comment", ""), "files": files, "blocks": blocks}
            if args.get("thread_ts"):
                content["thread_ts"] = args["thread_ts"]
            self._vendor.post(self._chat({"channel": args["channel_id"]}), content)
        return {"files": files}

    async def _react(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/reactions.add: "already_reacted: The specified
        item already has the user/reaction combination"."""
        reactions, name = self._reactions_of(args), str(args["name"])
        if name in reactions:
            raise SlackError("already_reacted")
        reactions.append(name)
        return {}

    async def _unreact(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/reactions.remove: "no_reaction: The specified
        item does not have the user/reaction combination"."""
        reactions, name = self._reactions_of(args), str(args["name"])
        if name not in reactions:
            raise SlackError("no_reaction")
        reactions.remove(name)
        return {}

    def _reactions_of(self, args: Args) -> list[str]:
        """Both need the scope; `invalid_name`: not the name of an emoji, which has no colons;
        `message_not_found`."""
        if "reactions:write" not in self._vendor.scopes.split(","):
            raise SlackError("missing_scope", needed="reactions:write")
        if args.get("name") not in EMOJI:
            raise SlackError("invalid_name")
        message_key = self._chat(args), str(args.get("timestamp"))
        if message_key not in {(each["channel"], each["ts"]) for each in self._vendor.messages}:
            raise SlackError("message_not_found")
        return self._vendor.reactions.setdefault(message_key, [])

    async def _file_info(self, args: Args) -> Json:
        return {"file": self._known_file(str(args["file"]))}

    async def _user_info(self, args: Args) -> Json:
        """https://docs.slack.dev/reference/methods/users.info: "include_locale: Set this to true to
        receive the locale for this user. Defaults to false"."""
        name = self._vendor.names.get(str(args.get("user")))
        if name is None:
            raise SlackError("user_not_found")
        profile = {"display_name": name, "real_name": f"{name} of the family"}
        user = {"id": args["user"], "name": name.lower(), "profile": profile}
        if str(args.get("include_locale")) == "true":
            user["locale"] = self._vendor.locales[str(args["user"])]
        return {"user": user}

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """https://docs.slack.dev/reference/objects/file-object: `url_private` wants the token in
        the header; without it one is sent to the page to log in at."""
        if request.headers.get("Authorization") != f"Bearer {self._vendor.token}":
            return web.Response(status=302, headers={"Location": "/login"})
        return web.Response(body=self._vendor.contents[request.match_info["id"]])

    def _chat(self, args: Args) -> str:
        if args.get("channel") not in self._vendor.chats:
            raise SlackError("channel_not_found")
        return str(args["channel"])

    def _known_file(self, number: str) -> Json:
        if number not in self._vendor.files:
            raise SlackError("file_not_found")
        return self._vendor.files[number]


async def _arguments(request: web.Request) -> Json:
    """https://docs.slack.dev/apis/web-api/#methods: a query, a form, or JSON; in the first two,
    what has a structure is JSON."""
    if request.content_type == "application/json":
        return dict(request.query) | dict(await request.json())
    flat = {**request.query, **await request.post()}
    return {
        key: json.loads(str(value)) if key in _STRUCTURED else value for key, value in flat.items()
    }


def _broken(request: web.Request, fault: ConnectionFault | None) -> web.StreamResponse | None:
    if fault is ConnectionFault.RESET_AFTER:
        assert request.transport is not None
        request.transport.close()
        return web.Response()
    if fault is ConnectionFault.ERROR_AFTER:
        return web.Response(status=502, text="<html>", content_type="text/html")
    if fault is ConnectionFault.TEXT_AFTER:
        return web.Response(text="welcome to this hotel")
    return None

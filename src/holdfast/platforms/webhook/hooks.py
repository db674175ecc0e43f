"""Hooks: what programs post to those of an account, answered well once it is durable."""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial

from aiohttp import web

from holdfast.core.errors import IntakeClosed, NotAllowed, NotMeant, StoreError
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Clock, Intake
from holdfast.core.secret import Secret
from holdfast.platforms.webhook.files import Unreadable
from holdfast.platforms.webhook.hook_settings import HookSettings
from holdfast.platforms.webhook.rate import Rate
from holdfast.platforms.webhook.reading import Passed, Reader
from holdfast.platforms.webhook.signatures import NotSigned, OutOfTime, Seal
from holdfast.platforms.webhook.template import Missing

log = logging.getLogger(__name__)

Said = tuple[Inbound, Sequence[Attachment]]

_PATIENCE = 30.0  # seconds that a body may take to arrive
_LARGE = 256 * 1024  # a body that takes longer to read than the event loop should be held up


def path_of(account: str, hook: str) -> str:
    """Where on our listener a hook is posted to."""
    return f"/hooks/webhook/{account}/{hook}"


class Hook:
    """One hook: knows its secret and how often it was posted to."""

    def __init__(
        self, name: str, settings: HookSettings, secret: Secret, *, account: str, clock: Clock
    ) -> None:
        self.name = name
        self.settings = settings
        self.rate = Rate(settings.per_minute, clock=clock)
        self._seal = Seal(settings, secret, clock=clock)
        self._reader = Reader(name, settings, account=account)

    def read(self, headers: Mapping[str, str], kind: str, body: bytes) -> Said:
        """Nothing of a post is looked at before it is known whose it is."""
        self._seal.check(headers, body)
        if kind not in self.settings.content_types:
            raise Unreadable(f"this hook takes {', '.join(self.settings.content_types)}")
        return self._reader.read(headers, kind, body)


class Hooks:
    """Owns whether posts are taken, only while an intake is there, and those in hand."""

    def __init__(
        self,
        hooks: Mapping[str, HookSettings],
        secrets: Mapping[str, Secret],
        *,
        account: str,
        clock: Clock,
    ) -> None:
        self._account = account
        self._hooks = [
            Hook(name, each, secrets[f"hooks.{name}.secret"], account=account, clock=clock)
            for name, each in hooks.items()
        ]
        self._intake: Intake | None = None
        self._in_hand: set[asyncio.Timeout] = set()

    def routes(self) -> Sequence[web.RouteDef]:
        return [
            web.post(path_of(self._account, hook.name), partial(self._post, hook))
            for hook in self._hooks
        ]

    def begin(self, intake: Intake) -> None:
        self._intake = intake

    def end(self) -> None:
        """What is not durable by now is left with whoever posted it."""
        self._intake = None
        for post in self._in_hand:
            post.reschedule(0.0)

    async def _post(self, hook: Hook, request: web.Request) -> web.Response:
        """202 once it is durable. A refusal says what is wrong with the post, to those who are
        known; to others it says nothing but that they are not."""
        try:
            body = await _body(request, hook.settings.max_kb * 1024)
        except TimeoutError:
            return _answer(408, "the body did not arrive")
        if body is None:
            return _answer(413, f"the body is larger than {hook.settings.max_kb} kB")
        try:
            said = await _read(hook, request, body)
        except (NotSigned, OutOfTime) as error:
            return _answer(401, str(error))
        except Passed as error:
            return _answer(200, str(error), status="ignored")
        except (Unreadable, Missing) as error:
            # Many a client says of JSON that it is a form, unless it is told otherwise.
            told = f"{error} (it came as {request.content_type})"
            log.warning("A post to %s: %s", hook.name, told, extra={"action": "hook_unread"})
            return _answer(422, told)
        if wait := hook.rate.wait():
            return _later(429, "more posts than this hook takes in a minute", wait)
        return await self._handed_over(hook, *said)

    async def _handed_over(
        self, hook: Hook, inbound: Inbound, attached: Sequence[Attachment]
    ) -> web.Response:
        try:
            accepted = await self._accept(inbound, attached)
        except NotMeant as error:
            return _answer(200, str(error), status="ignored")
        except NotAllowed as error:
            log.warning("The hook %s: %s", hook.name, error, extra={"action": "hook_not_allowed"})
            return _answer(403, "this hook may not speak there; the log of the gateway says why")
        except (StoreError, IntakeClosed, TimeoutError) as error:
            log.warning("A post is not taken: %s", error, extra={"action": "feed_paused"})
            return _later(503, "it cannot be kept at the moment; post it again", 1.0)
        if accepted:
            return _answer(202, "", status="accepted", id=inbound.message_id)
        return _answer(200, "", status="duplicate", id=inbound.message_id)

    async def _accept(self, inbound: Inbound, attached: Sequence[Attachment]) -> bool:
        """Whether it is a new one."""
        if self._intake is None:
            raise IntakeClosed("the account is not connected")
        async with asyncio.timeout(None) as post:
            self._in_hand.add(post)
            try:
                return not (await self._intake.accept(inbound, attached)).duplicate
            finally:
                self._in_hand.discard(post)


async def _read(hook: Hook, request: web.Request, body: bytes) -> Said:
    reading = partial(hook.read, request.headers, request.content_type, body)
    return reading() if len(body) < _LARGE else await asyncio.to_thread(reading)


async def _body(request: web.Request, most: int) -> bytes | None:
    """None: it is larger than that."""
    if (request.content_length or 0) > most:
        return None
    held = bytearray()
    async with asyncio.timeout(_PATIENCE):
        async for piece in request.content.iter_any():
            held += piece
            if len(held) > most:
                return None
    return bytes(held)


def _answer(code: int, message: str, **fields: str) -> web.Response:
    told = {"error": message} if code >= 400 else {"message": message} if message else {}
    return web.json_response({**fields, **told}, status=code)


def _later(code: int, message: str, wait: float) -> web.Response:
    response = _answer(code, message)
    response.headers["Retry-After"] = str(math.ceil(wait))
    return response

"""Handlers of the control socket by subject: accounts, pairing, viewer tokens, configuration, backup copies."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import msgspec
from aiohttp import web

from holdfast.config import ConfigError
from holdfast.core.errors import StoreError
from holdfast.core.ops.account import NoSuchAccount
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, GATEWAY_ACTOR, REFUSED, AuditEntry, AuditKind
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.gateway.accounts.accounts import Accounts, NotPausable
from holdfast.gateway.inbound.pairing import PairingDecision, PairingRefused, PairingService
from holdfast.server.api.views.gateway import account_list, account_view
from holdfast.server.api.views.pairing import PairingCode, PairingTarget, pairing_view
from holdfast.server.auth.viewers import HttpRole, ViewerTokenError, ViewerTokens

if TYPE_CHECKING:
    from holdfast.server.config_editor import ConfigEditor


class AccountHandlers:
    """Owns nothing: `Accounts` does what is asked, once there are any; `ready` says whether."""

    def __init__(self, accounts: Accounts, *, clock: Clock, ready: Callable[[], bool]) -> None:
        self._accounts = accounts
        self._clock = clock
        self._ready = ready

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/platforms", self._list),
            web.post("/platforms/{name}/{account}/{do:pause|resume|check}", self._run_action),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        return _accounts_json(
            account_list(self._ready_accounts().statuses(), now=self._clock.now())
        )

    async def _run_action(self, request: web.Request) -> web.Response:
        accounts, part = self._ready_accounts(), request.match_info
        ways = {"pause": accounts.pause, "resume": accounts.resume, "check": accounts.check}
        try:
            facts = await ways[part["do"]](part["name"], part["account"])
        except NoSuchAccount as error:
            raise web.HTTPNotFound(text=str(error)) from None
        except NotPausable as error:
            raise web.HTTPConflict(text=str(error)) from None
        return _accounts_json(account_view(facts, now=self._clock.now()))

    def _ready_accounts(self) -> Accounts:
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        return self._accounts


def _accounts_json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


Asked = TypeVar("Asked")


class PairingHandlers:
    """Owns nothing: `PairingService` decides, once it is known who waits; `ready` says whether."""

    def __init__(self, pairing: PairingService, *, ready: Callable[[], bool]) -> None:
        self._pairing = pairing
        self._ready = ready

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/pairing", self._list),
            web.post("/pairing/approve", self._approve),
            web.post("/pairing/deny", self._deny),
            web.post("/pairing/revoke", self._revoke),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        return _json(pairing_view(self._ready_pairing()))

    async def _approve(self, request: web.Request) -> web.Response:
        asked = await _decode_pairing_body(request, PairingCode)
        return await _decision_response(self._ready_pairing().approve(asked.code, by=OPERATOR))

    async def _deny(self, request: web.Request) -> web.Response:
        who = (await _decode_pairing_body(request, PairingTarget)).who
        return await _decision_response(self._ready_pairing().deny(who, by=OPERATOR))

    async def _revoke(self, request: web.Request) -> web.Response:
        who = (await _decode_pairing_body(request, PairingTarget)).who
        return await _decision_response(self._ready_pairing().revoke(who, by=OPERATOR))

    def _ready_pairing(self) -> PairingService:
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        return self._pairing


async def _decision_response(decision: Awaitable[PairingDecision]) -> web.Response:
    try:
        decided = await decision
    except PairingRefused as refused:
        raise web.HTTPConflict(text=str(refused)) from None
    if decided.wrong:
        raise web.HTTPConflict(text=decided.text)
    return _json({"message": decided.text})


async def _decode_pairing_body(request: web.Request, params_type: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(await request.read(), type=params_type)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


def _json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token, which is not the token."""

    name: str
    role: HttpRole
    made_at: float


class TokenName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ViewerTokenHandlers:
    """Owns nothing: `ViewerTokens` does what is asked. Tokens are kept in a file, so that the row of the
    audit is written before, and again where it came to nothing."""

    def __init__(self, viewers: ViewerTokens, *, writes: StoreWriter, clock: Clock) -> None:
        self._viewers = viewers
        self._writes = writes
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/tokens", self._list),
            web.post("/tokens", self._add),
            web.post("/tokens/revoke", self._revoke),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        listed = [
            TokenView(name=viewer.name, role=HttpRole.VIEWER, made_at=viewer.made_at)
            for viewer in self._viewers.all()
        ]
        return _tokens_json({"tokens": listed})

    async def _add(self, request: web.Request) -> web.Response:
        named = await _decode_token_name(request)
        await self._audit(AuditKind.TOKEN_ADDED, named.name, ASKED)
        try:
            token = await self._viewers.add(named.name)
        except ViewerTokenError as refused:
            await self._audit(AuditKind.TOKEN_ADDED, named.name, REFUSED)
            raise web.HTTPConflict(text=str(refused)) from None
        role = HttpRole.VIEWER
        return _tokens_json({"name": named.name, "role": role, "token": token.reveal()})

    async def _revoke(self, request: web.Request) -> web.Response:
        named = await _decode_token_name(request)
        await self._audit(AuditKind.TOKEN_REVOKED, named.name, ASKED)
        try:
            await self._viewers.revoke(named.name)
        except ViewerTokenError as refused:
            await self._audit(AuditKind.TOKEN_REVOKED, named.name, REFUSED)
            raise web.HTTPNotFound(text=str(refused)) from None
        return _tokens_json({"revoked": named.name})

    async def _audit(self, kind: AuditKind, name: str, outcome: str) -> None:
        at = self._clock.now()
        await self._writes.record_audit(
            AuditEntry(kind=kind, actor=OPERATOR, at=at, subject=name, outcome=outcome)
        )


async def _decode_token_name(request: web.Request) -> TokenName:
    try:
        return msgspec.json.decode(await request.read(), type=TokenName)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


def _tokens_json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


ACTOR = "command line"
_MAX_PAGE = 1000
_MAX_NUMBER = 1_000_000_000

T = TypeVar("T")


class ConfigHistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[int, msgspec.Meta(ge=1, le=_MAX_NUMBER)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MAX_PAGE)] = 20


class ConfigHandlers:
    """Owns who changes the configuration, from the first question on: no start waits for it, and
    the event loop does not while it is imported."""

    def __init__(
        self, make_editor: "Callable[[], ConfigEditor]", *, ready: Callable[[], bool]
    ) -> None:
        self._make_editor = make_editor
        self._ready = ready
        self._editor: ConfigEditor | None = None

    async def _ready_editor(self) -> "ConfigEditor":
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        if self._editor is None:
            await asyncio.to_thread(import_module, "holdfast.server.config_editor")
        return self.editor

    @property
    def editor(self) -> "ConfigEditor":
        if self._editor is None:
            self._editor = self._make_editor()
        return self._editor

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/config", self._view),
            web.post("/config/set", self._set),
            web.post("/config/reload", self._reload),
            web.post("/config/rollback", self._roll_back),
            web.get("/config/history", self._history),
            web.get("/config/history/{number}", self._version),
        ]

    async def _view(self, request: web.Request) -> web.Response:
        return await _config_response((await self._ready_editor()).view())

    async def _set(self, request: web.Request) -> web.Response:
        configuring = await self._ready_editor()
        from holdfast.server.api.views.config import ConfigChange  # noqa: PLC0415 - see class

        asked = _decode_config_body(await request.read(), ConfigChange)
        return await _config_response(configuring.change(asked, by=ACTOR))

    async def _reload(self, request: web.Request) -> web.Response:
        return await _config_response((await self._ready_editor()).reload(by=ACTOR))

    async def _roll_back(self, request: web.Request) -> web.Response:
        configuring = await self._ready_editor()
        from holdfast.server.api.views.config import RollbackParams  # noqa: PLC0415 - see class

        asked = _decode_config_body(await request.read(), RollbackParams)
        return await _config_response(configuring.roll_back(asked, by=ACTOR))

    async def _history(self, request: web.Request) -> web.Response:
        try:
            asked = msgspec.convert(dict(request.query), ConfigHistoryPage, strict=False)
        except msgspec.ValidationError as error:
            raise web.HTTPBadRequest(text=f"this is no page: {error}") from None
        configuring = await self._ready_editor()
        return await _config_response(configuring.history(before=asked.before, limit=asked.limit))

    async def _version(self, request: web.Request) -> web.Response:
        number = request.match_info["number"]
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise web.HTTPNotFound(text=f"there is no configuration {number!r}")
        return await _config_response(
            (await self._ready_editor()).version(int(number), against=None)
        )


async def _config_response(result: Awaitable[object]) -> web.Response:
    from holdfast.config.editor import FileChangedMeanwhile  # noqa: PLC0415 - see the desk
    from holdfast.config.files import FileNotWritten  # noqa: PLC0415 - see the desk
    from holdfast.server.config_editor import NoSuchConfigVersion, StaleRead  # noqa: PLC0415 - see the desk

    try:
        answer = await result
    except NoSuchConfigVersion as error:
        raise web.HTTPNotFound(text=str(error)) from None
    except (StaleRead, FileChangedMeanwhile, FileNotWritten) as error:
        raise web.HTTPConflict(text=str(error)) from None
    except ConfigError as error:
        raise web.HTTPUnprocessableEntity(text=str(error)) from None
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _decode_config_body(body: bytes, params_type: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=params_type)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


_PROGRESS_INTERVAL = 0.3  # seconds


class CopyableStore(Protocol):
    async def copy_to(self, path: Path, *, progress: Callable[[CopyProgress], None]) -> None: ...
    def record_audit(self, entry: AuditEntry) -> Awaitable[None]: ...


class BackupCopyParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`due`: nobody asked for it; it is one of those that the gateway makes by itself."""

    to: str
    due: bool = False


class _LatestProgress:
    """The last that the copying thread has told; one attribute, so any thread may read it."""

    latest: CopyProgress | None = None

    def __call__(self, copied: CopyProgress) -> None:
        self.latest = copied


class BackupCopyHandlers:
    """What the control socket has to offer to whoever makes a backup.

    The copy is made here because nobody else may open the file; to pack and to verify it is left
    to the process that asked, which can be as slow as it likes.
    """

    def __init__(
        self, store: CopyableStore, *, clock: Clock, backups_changed: Callable[[], Awaitable[None]]
    ) -> None:
        """`shelf_changed` looks at the backups that are there."""
        self._store = store
        self._clock = clock
        self._backups_changed = backups_changed
        self._lock = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/backup/copy", self._copy),
            web.post("/backup/refresh", self._refresh),
        ]

    async def _refresh(self, request: web.Request) -> web.Response:
        """Whoever made a backup, or removed some, says so when it is done."""
        await self._backups_changed()
        return web.json_response({})

    async def _copy(self, request: web.Request) -> web.StreamResponse:
        """JSON lines: how far it has come, and last `{"copied": true}` or `{"error": …}`."""
        asked, to = _decode_copy_params(await request.read())
        await self._audit(asked)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        # One at a time: two would take twice the disk from those who talk.
        async with self._lock, aclosing(self._progress_lines(to)) as lines:
            async for line in lines:
                await response.write(msgspec.json.encode(line) + b"\n")
        return response

    async def _audit(self, params: BackupCopyParams) -> None:
        """Before it is made: the copy tells of itself."""
        actor = GATEWAY_ACTOR if params.due else OPERATOR
        kind, at = AuditKind.BACKUP_MADE, self._clock.now()
        await self._store.record_audit(AuditEntry(kind=kind, actor=actor, at=at, outcome=ASKED))

    async def _progress_lines(self, to: Path) -> AsyncGenerator[Any, None]:
        """Whoever stops listening has it broken off."""
        told = _LatestProgress()
        copying = asyncio.ensure_future(self._store.copy_to(to, progress=told))
        try:
            while not (await asyncio.wait({copying}, timeout=_PROGRESS_INTERVAL))[0]:
                if told.latest is not None:
                    yield told.latest
            try:
                copying.result()
            except (StoreError, OSError) as error:
                yield {"error": str(error)}
            else:
                yield {"copied": True}
        finally:
            copying.cancel()
            await asyncio.wait({copying})


def _decode_copy_params(body: bytes) -> tuple[BackupCopyParams, Path]:
    try:
        asked = msgspec.json.decode(body, type=BackupCopyParams)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None
    to = Path(asked.to)
    if not to.is_absolute() or not to.parent.is_dir() or to.exists():
        raise web.HTTPBadRequest(text=f"{to} must be a new file, by its whole path")
    return asked, to

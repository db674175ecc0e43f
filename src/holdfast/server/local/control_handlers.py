"""Handlers of the control socket: accounts, pairing, tokens, configuration, backups."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
from aiohttp import web

from holdfast.config import ConfigError
from holdfast.core.errors import StoreError
from holdfast.core.ops.account import NoSuchAccount
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.text.translation import _
from holdfast.gateway.accounts.accounts import Accounts, NotPausable
from holdfast.gateway.inbound.pairing import PairingDecision, PairingRefused, PairingService
from holdfast.server.api.views.gateway import account_list, account_view
from holdfast.server.api.views.pairing import PairingCode, PairingTarget, pairing_view
from holdfast.server.auth.tokens import TokenError, TokenRequest, TokenService, token_view
from holdfast.server.local.control_socket import decode_body, json_response

if TYPE_CHECKING:
    from holdfast.server.config_editor import ConfigEditor


class AccountHandlers:
    """Accounts of platforms: list, pause, resume, check. 503 until `ready`."""

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
        return json_response(account_list(self._ready_accounts().statuses(), now=self._clock.now()))

    async def _run_action(self, request: web.Request) -> web.Response:
        accounts, part = self._ready_accounts(), request.match_info
        actions = {"pause": accounts.pause, "resume": accounts.resume, "check": accounts.check}
        try:
            status = await actions[part["do"]](part["name"], part["account"])
        except NoSuchAccount as error:
            raise web.HTTPNotFound(text=error.for_person()) from None
        except NotPausable as error:
            raise web.HTTPConflict(text=error.for_person()) from None
        return json_response(account_view(status, now=self._clock.now()))

    def _ready_accounts(self) -> Accounts:
        if not self._ready():
            raise _not_ready()
        return self._accounts


class PairingHandlers:
    """Pairing: list, approve, deny, revoke. 503 until `ready`, when the requests are loaded."""

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
        return json_response(pairing_view(self._ready_pairing()))

    async def _approve(self, request: web.Request) -> web.Response:
        params = await decode_body(request, PairingCode)
        return await _decision_response(self._ready_pairing().approve(params.code, by=OPERATOR))

    async def _deny(self, request: web.Request) -> web.Response:
        who = (await decode_body(request, PairingTarget)).who
        return await _decision_response(self._ready_pairing().deny(who, by=OPERATOR))

    async def _revoke(self, request: web.Request) -> web.Response:
        who = (await decode_body(request, PairingTarget)).who
        return await _decision_response(self._ready_pairing().revoke(who, by=OPERATOR))

    def _ready_pairing(self) -> PairingService:
        if not self._ready():
            raise _not_ready()
        return self._pairing


def _not_ready() -> web.HTTPServiceUnavailable:
    text = _("The gateway is starting or stopping; try again.")
    return web.HTTPServiceUnavailable(text=text)


async def _decision_response(decision: Awaitable[PairingDecision]) -> web.Response:
    try:
        decided = await decision
    except PairingRefused as refused:
        raise web.HTTPConflict(text=refused.for_person()) from None
    if decided.wrong:
        raise web.HTTPConflict(text=decided.text)
    return json_response({"message": decided.text})


class TokenName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class TokenHandlers:
    """Created tokens: list, create, revoke."""

    def __init__(self, service: TokenService) -> None:
        self._service = service

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/tokens", self._list),
            web.post("/tokens", self._create),
            web.post("/tokens/revoke", self._revoke),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        listed = [token_view(token) for token in self._service.tokens.all()]
        return json_response({"tokens": listed})

    async def _create(self, request: web.Request) -> web.Response:
        asked = await decode_body(request, TokenRequest)
        try:
            token = await self._service.create(asked, by=OPERATOR)
        except TokenError as refused:
            raise web.HTTPConflict(text=refused.for_person()) from None
        made = {"name": asked.name, "scope": asked.scope, "token": token.reveal()}
        return json_response(made)

    async def _revoke(self, request: web.Request) -> web.Response:
        named = await decode_body(request, TokenName)
        try:
            await self._service.revoke(named.name, by=OPERATOR)
        except TokenError as refused:
            raise web.HTTPNotFound(text=refused.for_person()) from None
        return json_response({"revoked": named.name})


ACTOR = "command line"
_MAX_PAGE = 1000
_MAX_NUMBER = 1_000_000_000


class ConfigHistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[int, msgspec.Meta(ge=1, le=_MAX_NUMBER)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MAX_PAGE)] = 20


class ConfigHandlers:
    """Owns the `ConfigEditor`, which is imported in a thread by the first request: neither a start
    nor the event loop waits for that import."""

    def __init__(
        self, make_editor: "Callable[[], ConfigEditor]", *, ready: Callable[[], bool]
    ) -> None:
        self._make_editor = make_editor
        self._ready = ready
        self._editor: ConfigEditor | None = None

    async def _ready_editor(self) -> "ConfigEditor":
        if not self._ready():
            raise _not_ready()
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
        editor = await self._ready_editor()
        from holdfast.server.api.views.config import ConfigChange  # noqa: PLC0415 - lazy

        params = await decode_body(request, ConfigChange)
        return await _config_response(editor.change(params, by=ACTOR))

    async def _reload(self, request: web.Request) -> web.Response:
        return await _config_response((await self._ready_editor()).reload(by=ACTOR))

    async def _roll_back(self, request: web.Request) -> web.Response:
        editor = await self._ready_editor()
        from holdfast.server.api.views.config import RollbackParams  # noqa: PLC0415 - lazy

        params = await decode_body(request, RollbackParams)
        return await _config_response(editor.roll_back(params, by=ACTOR))

    async def _history(self, request: web.Request) -> web.Response:
        try:
            params = msgspec.convert(dict(request.query), ConfigHistoryPage, strict=False)
        except msgspec.ValidationError as error:
            raise web.HTTPBadRequest(
                text=_("This is not a valid page request: {error}").format(error=error)
            ) from None
        editor = await self._ready_editor()
        return await _config_response(editor.history(before=params.before, limit=params.limit))

    async def _version(self, request: web.Request) -> web.Response:
        number = request.match_info["number"]
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise web.HTTPNotFound(
                text=_("There is no configuration {number!r}.").format(number=number)
            )
        return await _config_response(
            (await self._ready_editor()).version(int(number), against=None)
        )


async def _config_response(result: Awaitable[object]) -> web.Response:
    from holdfast.config.editor import FileChangedMeanwhile  # noqa: PLC0415 - lazy
    from holdfast.config.files import FileNotWritten  # noqa: PLC0415 - lazy
    from holdfast.server.config_editor import NoSuchConfigVersion, StaleRead  # noqa: PLC0415 - lazy

    try:
        answer = await result
    except NoSuchConfigVersion as error:
        raise web.HTTPNotFound(text=error.for_person()) from None
    except (StaleRead, FileChangedMeanwhile, FileNotWritten) as error:
        raise web.HTTPConflict(text=error.for_person()) from None
    except ConfigError as error:
        raise web.HTTPUnprocessableEntity(text=error.for_person()) from None
    return json_response(answer)


_PROGRESS_INTERVAL = 0.3  # seconds


class CopyableStore(StoreWriter, Protocol):
    async def copy_to(self, path: Path, *, progress: Callable[[CopyProgress], None]) -> None: ...


class BackupCopyParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`due`: a scheduled backup of the gateway itself, not one that a person asked for."""

    to: str
    due: bool = False


class _LatestProgress:
    """The latest progress of the copying thread; one attribute, so any thread may read it."""

    latest: CopyProgress | None = None

    def __call__(self, copied: CopyProgress) -> None:
        self.latest = copied


class BackupCopyHandlers:
    """Copies of the database for a backup.

    The copy is made here because only the gateway may open the database. The process that asked
    packs and verifies the copy, at its own pace.
    """

    def __init__(
        self, store: CopyableStore, *, clock: Clock, backups_changed: Callable[[], Awaitable[None]]
    ) -> None:
        """`backups_changed` re-reads the list of backups."""
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
        """A command that made or removed backups reports it here when it is done."""
        await self._backups_changed()
        return web.json_response({})

    async def _copy(self, request: web.Request) -> web.StreamResponse:
        """JSON lines: the progress, and last `{"copied": true}` or `{"error": …}`."""
        params = await decode_body(request, BackupCopyParams)
        to = _target_path(params)
        await self._audit(params)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        # One at a time: two would take twice the disk bandwidth from the conversations.
        async with self._lock, aclosing(self._progress_lines(to)) as lines:
            async for line in lines:
                await response.write(msgspec.json.encode(line) + b"\n")
        return response

    async def _audit(self, params: BackupCopyParams) -> None:
        """Before the copy is made, so that the copy contains the row."""
        actor = GATEWAY_ACTOR if params.due else OPERATOR
        kind, at = AuditKind.BACKUP_MADE, self._clock.now()
        await self._store.write(
            RecordAudit(entry=AuditEntry(kind=kind, actor=actor, at=at, outcome=ASKED))
        )

    async def _progress_lines(self, to: Path) -> AsyncGenerator[Any, None]:
        """Closing this generator cancels the copy."""
        progress = _LatestProgress()
        copying = asyncio.ensure_future(self._store.copy_to(to, progress=progress))
        try:
            while not (await asyncio.wait({copying}, timeout=_PROGRESS_INTERVAL))[0]:
                if progress.latest is not None:
                    yield progress.latest
            try:
                copying.result()
            except (StoreError, OSError) as error:
                yield {"error": error.for_person() if isinstance(error, StoreError) else str(error)}
            else:
                yield {"copied": True}
        finally:
            copying.cancel()
            await asyncio.wait({copying})


def _target_path(params: BackupCopyParams) -> Path:
    to = Path(params.to)
    if not to.is_absolute() or not to.parent.is_dir() or to.exists():
        raise web.HTTPBadRequest(
            text=_("{file} must be a new file, given by its absolute path.").format(file=to)
        )
    return to

"""Copying the store for a backup: asked for by the owner of the home, who packs it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.core.ports.protocols import Clock

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
            web.post("/backup/shelf", self._refresh),
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

"""Who makes an HTTP request: the owner, or a viewer with a token stored as a digest in a file."""

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.system import state_file

log = logging.getLogger(__name__)


class HttpRole(StrEnum):
    OWNER = "owner"  # sees and changes everything
    VIEWER = "viewer"  # sees everything and changes nothing


class HttpPrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """`id` and `name` are those of a viewer's token; the owner has neither."""

    role: HttpRole
    id: str = ""
    name: str = ""


OWNER = HttpPrincipal(role=HttpRole.OWNER)


MAX_VIEWERS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class ViewerTokenError(HoldfastError):
    """A token that cannot be created, or does not exist; the text says why."""


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """One token, of which only the `digest` is stored."""

    id: str
    name: str
    digest: str
    made_at: float

    @property
    def principal(self) -> HttpPrincipal:
        return HttpPrincipal(role=HttpRole.VIEWER, id=self.id, name=self.name)


class ViewerTokens:
    """Owns the tokens of viewers, their file, and the open connections of each viewer.

    A token has 256 random bits, so a plain digest of it cannot be reversed, and the time that a
    comparison of digests takes reveals nothing about the token.
    """

    def __init__(self, path: Path, *, clock: Clock, viewers: tuple[Viewer, ...] = ()) -> None:
        self._path = path
        self._clock = clock
        self._by_name = {viewer.name: viewer for viewer in viewers}
        self._lock = asyncio.Lock()
        self._connections: dict[str, set[Callable[[], None]]] = {}

    @classmethod
    def load(cls, path: Path, *, clock: Clock) -> Self:
        """Read the file. An invalid file is an error: starting with none would revoke every token
        silently."""
        try:
            known = msgspec.json.decode(path.read_bytes(), type=tuple[Viewer, ...])
        except FileNotFoundError:
            known = ()
        except (OSError, msgspec.MsgspecError) as error:
            raise HoldfastError(
                "{file} cannot be read ({error}). Restore it from a backup, or remove it; removing "
                "it revokes every viewer's token.",
                file=path,
                error=error,
            ) from None
        return cls(path, clock=clock, viewers=known)

    def all(self) -> list[Viewer]:
        return sorted(self._by_name.values(), key=lambda viewer: viewer.made_at)

    def by_name(self, name: str) -> Viewer:
        if name not in self._by_name:
            raise ViewerTokenError(
                "There is no token {name!r}; `holdfast token list` lists them.", name=name
            )
        return self._by_name[name]

    def by_id(self, viewer_id: str) -> Viewer | None:
        return next((v for v in self._by_name.values() if v.id == viewer_id), None)

    def by_token(self, token: str) -> Viewer | None:
        if not self._by_name or not token:
            return None
        digest = _digest(token)
        return next((v for v in self._by_name.values() if v.digest == digest), None)

    async def add(self, name: str) -> Secret:
        """Create a token; it works, and is durable, once this returns. It cannot be shown again."""
        async with self._lock:
            self._check(name)
            token = "hfv_" + secrets.token_urlsafe(32)
            viewer = Viewer(
                id=secrets.token_hex(8),
                name=name,
                digest=_digest(token),
                made_at=self._clock.now(),
            )
            await self._save({**self._by_name, name: viewer})
        log.info("Created viewer token %s", name, extra={"action": "token_created"})
        return Secret(token)

    async def revoke(self, name: str) -> None:
        """Revoke a token with every login made with it, and close its open connections."""
        async with self._lock:
            viewer = self.by_name(name)
            await self._save({n: v for n, v in self._by_name.items() if n != name})
        log.info("Revoked viewer token %s", name, extra={"action": "token_revoked"})
        for disconnect in self._connections.pop(viewer.id, ()):
            disconnect()

    @contextmanager
    def track_connection(
        self, principal: HttpPrincipal, disconnect: Callable[[], None]
    ) -> Iterator[None]:
        """While a viewer is served: `disconnect` is called if the token is revoked meanwhile."""
        if principal.role is HttpRole.OWNER:
            yield
            return
        open_now = self._connections.setdefault(principal.id, set())
        open_now.add(disconnect)
        try:
            yield
        finally:
            open_now.discard(disconnect)
            if not open_now:
                self._connections.pop(principal.id, None)

    def _check(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ViewerTokenError(
                "{name!r} cannot be the name of a token. Use at most 64 letters, digits, '.', '_' "
                "and '-'.",
                name=name,
            )
        if name in self._by_name:
            raise ViewerTokenError(
                "There is already a token {name!r}. Revoke it first, or choose another name.",
                name=name,
            )
        if len(self._by_name) >= MAX_VIEWERS:
            raise ViewerTokenError(
                "There are already {limit} tokens. Revoke one that is no longer needed.",
                limit=MAX_VIEWERS,
            )

    async def _save(self, viewers: dict[str, Viewer]) -> None:
        """Durable before it takes effect, so that a crash does not change who has access."""
        await state_file.save(self._path, tuple(viewers.values()))
        self._by_name = viewers


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()

"""Who makes an HTTP request: the owner, or a client with a token that is stored as a digest."""

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Self

import msgspec

from holdfast.core.errors import HoldfastError, TransientStoreError
from holdfast.core.ids import PrincipalId
from holdfast.core.people.api_tokens import ApiClient, TokenScope
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, REFUSED, AuditEntry, AuditKind
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.secrets import Secret
from holdfast.gateway.access import Principal
from holdfast.system import state_file

log = logging.getLogger(__name__)


class HttpPrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """`client` None: the owner. `login`: the id of the browser login, if a cookie proved it."""

    client: ApiClient | None = None
    name: str = ""
    login: str = ""

    @property
    def scope(self) -> TokenScope:
        return TokenScope.ADMIN if self.client is None else self.client.scope

    @property
    def actor(self) -> str:
        """Who it is in the audit."""
        return OPERATOR if self.client is None else f"token:{self.name}"

    @property
    def principal(self) -> Principal:
        if self.client is None:
            return Principal(id=PrincipalId(OPERATOR), authenticated=True)
        return Principal(id=self.client.principal, authenticated=False, client=self.client)


OWNER = HttpPrincipal()

MAX_TOKENS = 100
MAX_SESSIONS = 50  # that one token may name
_LAST_USE_INTERVAL = 600.0  # seconds; the time of the last use is stored no more often
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class TokenError(HoldfastError):
    """A token that cannot be created, or does not exist; the text says why."""


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """One token, of which only the `digest` is stored. The defaults are those of the tokens that
    could only read, which older versions stored."""

    id: str
    name: str
    digest: str
    made_at: float
    scope: TokenScope = TokenScope.READ
    sessions: tuple[str, ...] = ()
    expires_at: float | None = None  # None: never
    last_used_at: float | None = None  # to ten minutes; None: it was not used

    @property
    def client(self) -> ApiClient:
        return ApiClient(id=self.id, scope=self.scope, sessions=self.sessions)

    @property
    def principal(self) -> HttpPrincipal:
        return HttpPrincipal(client=self.client, name=self.name)


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret. `expires_at` null: never; `last_used_at`: to ten minutes."""

    name: str
    scope: TokenScope
    sessions: list[str]
    made_at: float
    expires_at: float | None
    last_used_at: float | None


def token_view(token: ApiToken) -> TokenView:
    return TokenView(
        name=token.name,
        scope=token.scope,
        sessions=list(token.sessions),
        made_at=token.made_at,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
    )


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sessions`: for the scope `sessions`, as `X-Holdfast-Session` names them. `expires_in`:
    seconds; None: never."""

    name: str
    scope: TokenScope = TokenScope.TALK
    sessions: tuple[str, ...] = ()
    expires_in: float | None = None


class ApiTokens:
    """Owns the tokens that the owner created, their file, and the open connections of each.

    A token has 256 random bits, so a plain digest of it cannot be reversed, and the time that a
    look-up by digest takes reveals nothing about the token.
    """

    def __init__(self, path: Path, *, clock: Clock, tokens: tuple[ApiToken, ...] = ()) -> None:
        self._path = path
        self._clock = clock
        self._lock = asyncio.Lock()
        self._connections: dict[str, set[Callable[[], None]]] = {}  # by the id of token or login
        self._saving: asyncio.Task[None] | None = None
        self._set({token.name: token for token in tokens})

    @classmethod
    def load(cls, path: Path, *, clock: Clock) -> Self:
        """Read the file. An invalid file is an error: starting with none would revoke every token
        silently."""
        for each in (path, _older_file(path)):
            try:
                known = msgspec.json.decode(each.read_bytes(), type=tuple[ApiToken, ...])
            except FileNotFoundError:
                continue
            except (OSError, msgspec.MsgspecError) as error:
                raise HoldfastError(
                    "{file} cannot be read ({error}). Restore it from a backup, or remove it; "
                    "removing it revokes every created token.",
                    file=each,
                    error=error,
                ) from None
            return cls(path, clock=clock, tokens=known)
        return cls(path, clock=clock)

    def _set(self, tokens: dict[str, ApiToken]) -> None:
        self._by_name = tokens
        self._by_digest = {token.digest: token for token in tokens.values()}
        self._by_id = {token.id: token for token in tokens.values()}

    def all(self) -> list[ApiToken]:
        return sorted(self._by_name.values(), key=lambda token: token.made_at)

    def by_name(self, name: str) -> ApiToken:
        if name not in self._by_name:
            raise TokenError(
                "There is no token {name!r}; `holdfast token list` lists them.", name=name
            )
        return self._by_name[name]

    def by_id(self, token_id: str) -> ApiToken | None:
        return self._valid(self._by_id.get(token_id))

    def by_token(self, token: str) -> ApiToken | None:
        """The token, if it is valid now; counts as a use of it."""
        if not self._by_name or not token:
            return None
        found = self._valid(self._by_digest.get(_digest(token)))
        if found is not None:
            self._note_use(found)
        return found

    def client_by_token(self, token: str) -> ApiClient | None:
        found = self.by_token(token)
        return None if found is None else found.client

    def client(self, user_id: str) -> ApiClient | None:
        """The client that talks as this user, while its token is valid."""
        found = self.by_id(user_id.rpartition("/")[2])
        return found.client if found is not None and found.client.user_id == user_id else None

    def _valid(self, token: ApiToken | None) -> ApiToken | None:
        if token is None or token.expires_at is None or token.expires_at > self._clock.now():
            return token
        return None

    def _note_use(self, token: ApiToken) -> None:
        """Stored later and seldom: a request must not wait for the disk."""
        now = self._clock.now()
        if token.last_used_at is not None and now - token.last_used_at < _LAST_USE_INTERVAL:
            return
        self._set({**self._by_name, token.name: msgspec.structs.replace(token, last_used_at=now)})
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save_uses())

    async def _save_uses(self) -> None:
        try:
            async with self._lock:
                await self._save(self._by_name)
        except TransientStoreError as error:
            log.warning(
                "The last use of a token was not stored: %s",
                error,
                extra={"action": "token_use_not_stored"},
            )

    async def create(self, asked: TokenRequest) -> Secret:
        """Create a token; it works, and is durable, once this returns. It cannot be shown again."""
        async with self._lock:
            self._check(asked)
            value, now = "hft_" + secrets.token_urlsafe(32), self._clock.now()
            token = ApiToken(
                id=secrets.token_hex(8),
                name=asked.name,
                digest=_digest(value),
                made_at=now,
                scope=asked.scope,
                sessions=tuple(dict.fromkeys(asked.sessions)),
                expires_at=None if asked.expires_in is None else now + asked.expires_in,
            )
            await self._save({**self._by_name, asked.name: token})
        log.info(
            "Created token %s with the scope %s",
            asked.name,
            asked.scope,
            extra={"action": "token_created"},
        )
        return Secret(value)

    async def revoke(self, name: str) -> None:
        """Revoke a token with every login made with it, and close its open connections."""
        async with self._lock:
            token = self.by_name(name)
            await self._save({n: each for n, each in self._by_name.items() if n != name})
        log.info("Revoked token %s", name, extra={"action": "token_revoked"})
        self.disconnect(token.id)

    def disconnect(self, holder: str) -> None:
        """Close the open connections of a token or of a login."""
        for disconnect in tuple(self._connections.pop(holder, ())):
            disconnect()

    @contextmanager
    def track_connection(
        self, principal: HttpPrincipal, disconnect: Callable[[], None]
    ) -> Iterator[None]:
        """While a request is served: `disconnect` is called once its token is revoked or expires,
        or its login ends."""
        client = principal.client
        holders = [each for each in (client.id if client else "", principal.login) if each]
        if not holders:
            yield
            return
        with ExitStack() as tracked:
            for holder in holders:
                self._connections.setdefault(holder, set()).add(disconnect)
                tracked.callback(self._untrack, holder, disconnect)
            token = self._by_id.get(client.id) if client else None
            if token is not None and token.expires_at is not None:
                left = max(token.expires_at - self._clock.now(), 0.0)
                timer = asyncio.get_running_loop().call_later(left, disconnect)
                tracked.callback(timer.cancel)
            yield

    def track_client(
        self, client: ApiClient, disconnect: Callable[[], None]
    ) -> AbstractContextManager[None]:
        return self.track_connection(HttpPrincipal(client=client), disconnect)

    def _untrack(self, holder: str, disconnect: Callable[[], None]) -> None:
        open_now = self._connections.get(holder)
        if open_now is None:
            return
        open_now.discard(disconnect)
        if not open_now:
            del self._connections[holder]

    def _check(self, asked: TokenRequest) -> None:
        if not _NAME.fullmatch(asked.name):
            raise TokenError(
                "{name!r} cannot be the name of a token. Use at most 64 letters, digits, '.', '_' "
                "and '-'.",
                name=asked.name,
            )
        if asked.name in self._by_name:
            raise TokenError(
                "There is already a token {name!r}. Revoke it first, or choose another name.",
                name=asked.name,
            )
        if len(self._by_name) >= MAX_TOKENS:
            raise TokenError(
                "There are already {limit} tokens. Revoke one that is no longer needed.",
                limit=MAX_TOKENS,
            )
        if bool(asked.sessions) is not (asked.scope is TokenScope.SESSIONS):
            raise TokenError(
                "The scope `sessions` needs the names of its sessions, and no other scope has any."
            )
        if len(asked.sessions) > MAX_SESSIONS or not all(map(_is_session_name, asked.sessions)):
            raise TokenError(
                "A token names at most {limit} sessions, each with 1 to 200 printable characters.",
                limit=MAX_SESSIONS,
            )
        if asked.expires_in is not None and not 0 < asked.expires_in < 100 * 365 * 86400:
            raise TokenError("A token expires after a time of more than 0 and less than 100 years.")

    async def _save(self, tokens: dict[str, ApiToken]) -> None:
        """Durable before it takes effect, so that a crash does not change who has access. The file
        of an older version goes last: that version would not know what was revoked."""
        await state_file.save(self._path, tuple(tokens.values()))
        self._set(tokens)
        await asyncio.to_thread(_older_file(self._path).unlink, missing_ok=True)


class TokenService:
    """Creates and revokes tokens for a person, and audits it.

    Tokens are in a file and not in the store, so the audit row is written before the change, and
    a second one if the change was refused."""

    def __init__(self, tokens: ApiTokens, *, writes: StoreWriter, clock: Clock) -> None:
        self.tokens = tokens
        self._writes = writes
        self._clock = clock

    async def create(self, asked: TokenRequest, *, by: str) -> Secret:
        facts = {
            "scope": asked.scope.value,
            "sessions": ", ".join(asked.sessions),
            "expires_in": asked.expires_in,
        }
        await self._audit(AuditKind.TOKEN_ADDED, asked.name, ASKED, by=by, facts=facts)
        try:
            return await self.tokens.create(asked)
        except TokenError:
            await self._audit(AuditKind.TOKEN_ADDED, asked.name, REFUSED, by=by)
            raise

    async def revoke(self, name: str, *, by: str) -> None:
        await self._audit(AuditKind.TOKEN_REVOKED, name, ASKED, by=by)
        try:
            await self.tokens.revoke(name)
        except TokenError:
            await self._audit(AuditKind.TOKEN_REVOKED, name, REFUSED, by=by)
            raise

    async def _audit(
        self,
        kind: AuditKind,
        name: str,
        outcome: str,
        *,
        by: str,
        facts: dict[str, str | float | None] | None = None,
    ) -> None:
        await self._writes.write(
            RecordAudit(
                entry=AuditEntry(
                    kind=kind,
                    actor=by,
                    at=self._clock.now(),
                    subject=name[:200],
                    outcome=outcome,
                    facts={key: value for key, value in (facts or {}).items() if value},
                )
            )
        )


def _is_session_name(name: str) -> bool:
    return 1 <= len(name) <= 200 and name.isprintable()


def _older_file(path: Path) -> Path:
    """Where version 0.1 kept the tokens of viewers."""
    return path.with_name("viewers.json")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()

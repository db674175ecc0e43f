"""Locks on platform credentials: two gateways of one machine never connect with the same ones."""

import asyncio
import fcntl
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from holdfast.core.errors import AccountInUse, HoldfastError
from holdfast.system.paths import private_dir

log = logging.getLogger(__name__)

CredentialIdentity = tuple[str, ...]
"""What says which account of a vendor is meant: its platform, and the values of its keys."""


class CredentialHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who has claimed an account, as written in its file for those who meet it."""

    home: str
    account: str
    pid: int

    def __str__(self) -> str:
        return f"the gateway of {self.home}, process {self.pid}, as {self.account}"


class FileCredentialLocks:
    """Owns the OS locks on the accounts that are connected from here, in a folder that every
    gateway of this user looks into. A lock is the kernel's and dies with its process, so nothing
    that a killed one left keeps another out. No credential is written there, only a hash.
    """

    def __init__(
        self, folder: Path, *, home: Path, identities: Mapping[tuple[str, str], CredentialIdentity]
    ) -> None:
        self._folder = folder
        self._home = home
        self._identities = identities

    def set_identities(self, identities: Mapping[tuple[str, str], CredentialIdentity]) -> None:
        """Accounts are claimed by these from now on; a claim that is held is held until its
        connection ends."""
        self._identities = identities

    @asynccontextmanager
    async def claim(self, platform: str, account: str) -> AsyncIterator[None]:
        identity = self._identities.get((platform, account))
        if identity is None:  # it may be shared
            yield
            return
        name = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]
        mine = CredentialHolder(
            home=str(self._home), account=f"{platform}:{account}", pid=os.getpid()
        )
        taking = asyncio.ensure_future(asyncio.to_thread(_try_lock, self._folder / name, mine))
        try:
            await asyncio.shield(taking)
            yield
        finally:
            # A thread cannot be cancelled: what it takes after all is given back then.
            taking.add_done_callback(_release)


def _release(locking: asyncio.Future[int | None]) -> None:
    if not locking.cancelled() and not locking.exception() and (fd := locking.result()) is not None:
        os.close(fd)


def _try_lock(path: Path, holder: CredentialHolder) -> int | None:
    """None: nothing can be claimed on this machine, and the account is used unclaimed: it is not
    the fault of its people, and where the vendor knows of two it says so itself."""
    try:
        private_dir(path.parent)
        return _lock(path, holder)
    except (OSError, HoldfastError) as error:
        if isinstance(error, AccountInUse):
            raise
        log.warning(
            "%s cannot be claimed in %s, so another gateway could connect with its credentials: %s",
            holder.account,
            path.parent,
            error,
            extra={"action": "credentials_not_locked"},
        )
        return None


def _lock(path: Path, new_holder: CredentialHolder) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(fd)
            os.close(fd)
            raise AccountInUse(
                "another gateway of this machine is connected with the same credentials",
                holder="" if holder is None else str(holder),
            ) from None
        # Somebody may have removed the file meanwhile: a lock on what has no name keeps nobody out.
        if _same_file(path, fd):
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(new_holder), 0)
            return fd
        os.close(fd)


def _same_file(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _read_holder(fd: int) -> CredentialHolder | None:
    """None: whoever has it has not written down who they are."""
    try:
        return msgspec.json.decode(os.pread(fd, 65536, 0), type=CredentialHolder)
    except (OSError, msgspec.MsgspecError):
        return None

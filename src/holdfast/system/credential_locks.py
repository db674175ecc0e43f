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
"""Identifies an account of a vendor: its platform, and the values of its identity keys."""


class CredentialHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The process that has locked an account, as written in the lock file for other processes."""

    home: str
    account: str
    pid: int

    def __str__(self) -> str:
        return f"the gateway of {self.home}, process {self.pid}, as {self.account}"


class FileCredentialLocks:
    """Owns the OS locks on the accounts that this process has connected, in a folder that all
    gateways of this user share. The kernel releases a lock when its process ends, so a file of a
    killed process blocks no other. The files contain no credentials; their names are hashes.
    """

    def __init__(
        self, folder: Path, *, home: Path, identities: Mapping[tuple[str, str], CredentialIdentity]
    ) -> None:
        self._folder = folder
        self._home = home
        self._identities = identities

    def set_identities(self, identities: Mapping[tuple[str, str], CredentialIdentity]) -> None:
        """Use these identities for new locks; existing locks stay until their connection ends."""
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
        locking = asyncio.ensure_future(asyncio.to_thread(_try_lock, self._folder / name, mine))
        try:
            await asyncio.shield(locking)
            yield
        finally:
            # A thread cannot be cancelled: a lock that it gets later is released then.
            locking.add_done_callback(_release)


def _release(locking: asyncio.Future[int | None]) -> None:
    if not locking.cancelled() and not locking.exception() and (fd := locking.result()) is not None:
        os.close(fd)


def _try_lock(path: Path, holder: CredentialHolder) -> int | None:
    """None: locks do not work on this machine, and the account is used without one. That is better
    than not at all, and most vendors report a second connection themselves."""
    try:
        private_dir(path.parent)
        return _lock(path, holder)
    except (OSError, HoldfastError) as error:
        if isinstance(error, AccountInUse):
            raise
        log.warning(
            "Cannot lock %s in %s, so another gateway could connect with its credentials: %s",
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
                "another gateway on this machine is connected with the same credentials",
                holder="" if holder is None else str(holder),
            ) from None
        # The file may have been removed meanwhile: a lock on a removed file locks nothing.
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
    """None: the holder has not written the file yet."""
    try:
        return msgspec.json.decode(os.pread(fd, 65536, 0), type=CredentialHolder)
    except (OSError, msgspec.MsgspecError):
        return None

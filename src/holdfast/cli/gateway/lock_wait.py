"""Waiting for a lock with a deadline: the kernel is waited for in a thread, and wakes this one."""

import select
import socket
import threading
from typing import Self

from holdfast.core.errors import HoldfastError
from holdfast.system.lock import HomeLock


class LockWait:
    """Owns the thread that waits. It cannot be called back: who gives up ends the process."""

    def __init__(self, lock: HomeLock) -> None:
        self._lock = lock
        self._wake_socket, self._done_socket = socket.socketpair()
        self._failed: HoldfastError | None = None
        self._thread = threading.Thread(target=self._acquire, name="lock", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._wake_socket.close()

    def wait(self, *, timeout: float) -> bool:
        """True once the lock is ours; False if it is not by then."""
        poll = select.poll()
        poll.register(self._wake_socket, select.POLLIN)
        if not poll.poll(max(0.0, timeout) * 1000):
            return False
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        return True

    def _acquire(self) -> None:
        try:
            self._lock.wait()
        except HoldfastError as error:
            self._failed = error
        finally:
            self._done_socket.close()

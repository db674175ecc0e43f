"""The starter: a small detached process that starts a successor, sees it ready, and goes."""

import logging
import os
import select
import socket
import sys
import time
from pathlib import Path

import msgspec

from holdfast.service import exits
from holdfast.service.backoff import Backoff
from holdfast.service.log_lines import JsonLines
from holdfast.service.offspring import Nest
from holdfast.service.paths import Paths, private_dir
from holdfast.service.succession import StarterOrder

log = logging.getLogger("holdfast.service.starter")

# With these a start is over for good: it was told to stop, the home has another gateway, or a
# person has to mend the configuration.
_FOR_GOOD = frozenset({exits.OK, exits.HOME_IN_USE, exits.CONFIG_EXIT})
_PATIENCE = 5.0  # a wait longer than this is none that somebody should spend in a queue
_LAST_WORDS = 2000


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=StarterOrder)
    paths = Paths(Path(order.home))
    _log_to(paths.log_file)
    inherited = [socket.socket(fileno=fd) for fd in order.sockets]
    for sock in inherited:
        sock.set_inheritable(False)
    with Nest(paths, sockets=inherited) as nest:
        Starter(order, nest, words=paths.logs / "gateway.out").run()


class Starter:
    """Owns the attempts at one successor."""

    def __init__(self, order: StarterOrder, nest: Nest, *, words: Path) -> None:
        """`words` is the file that takes what a successor says before it has a log."""
        self._order = order
        self._nest = nest
        self._words = words
        self._backoff = Backoff(first=order.first_wait, most=order.longest_wait)

    def run(self) -> None:
        """Returns when a successor is ready, or when none is to be had."""
        while True:
            began = time.monotonic()
            code = self._attempt()
            if code is None or code in _FOR_GOOD:
                return
            wait = 0.0
            if code != exits.GATEWAY_SERVICE_RESTART_EXIT_CODE:
                wait = self._backoff.after(time.monotonic() - began)
            log.error(
                "The successor ended with %d before it was ready; again in %g s. It said: %s",
                code,
                wait,
                self._said(),
                extra={"action": "successor_failed", "exit_code": code},
            )
            if wait > _PATIENCE:
                self._nest.let_go()
            time.sleep(wait)

    def _attempt(self) -> int | None:
        """The exit code of a gateway that ended before it was ready; None: it is ready."""
        output = os.open(self._words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            pid = self._nest.start(self._order.argv, _environment(), output=output)
        finally:
            os.close(output)
        child = os.pidfd_open(pid)
        try:
            if self._until_ready(child):
                log.info("The successor is ready, as process %d.", pid, extra={"action": "started"})
                return None
        finally:
            os.close(child)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code in _FOR_GOOD:
            log.error(
                "The successor ended with %d and is not started again: %s",
                code,
                self._said(),
                extra={"action": "successor_refused", "exit_code": code},
            )
        return code

    def _until_ready(self, child: int) -> bool:
        poll = select.poll()
        poll.register(child, select.POLLIN)
        poll.register(self._nest, select.POLLIN)
        while True:
            awake = {fd for fd, _ in poll.poll()}
            if self._nest.fileno() in awake and self._nest.heard():
                return True
            if child in awake:
                return False

    def _said(self) -> str:
        try:
            return self._words.read_text(errors="replace").strip()[-_LAST_WORDS:] or "nothing"
        except OSError as error:
            return f"what, cannot be read: {error.strerror}"


def _environment() -> dict[str, str]:
    """As it was given to this process, which was made for nothing but to pass it on."""
    return dict(os.environ)


def _log_to(file: Path) -> None:
    private_dir(file.parent)
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    writer = logging.StreamHandler(open(fd, "a", encoding="utf-8"))  # noqa: SIM115 - to the end
    writer.setFormatter(JsonLines(str))
    log.addHandler(writer)
    log.setLevel(logging.INFO)


if __name__ == "__main__":
    main()

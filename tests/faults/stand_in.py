"""An understudy: a program in place of a gateway, which does in each life what a plan says.

`understudy.py PLAN run --home DIR …`: PLAN is a file with one word a line, a life each: an exit
code, or `ready`. Each life adds a line to PLAN.lives; past the end the last word counts.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path


def main() -> None:
    plan = Path(sys.argv[1])
    lives = Path(f"{plan}.lives")
    done = len(lives.read_text().splitlines()) if lives.exists() else 0
    with lives.open("a") as file:
        file.write(f"{os.getpid()} {_listening()} {' '.join(sys.argv[2:])}\n")
    words = plan.read_text().split()
    word = words[min(done, len(words) - 1)]
    if word == "orphan":
        # The shell ends at once, and leaves a child that ends a moment later.
        subprocess.run(["sh", "-c", "sleep 0.05 & exit 0"], check=True)
        word = "ready"
    if word != "ready":
        print(f"understudy: the plan says {word}", file=sys.stderr, flush=True)
        sys.exit(int(word))
    _be_ready()


def _listening() -> str:
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return "-"
    with socket.socket(fileno=3) as sock:
        return f"{os.environ['LISTEN_FDS']}@{sock.getsockname()[1]}"


def _be_ready() -> None:
    """Until a signal: SIGUSR1 is a restart, as of a gateway that is supervised."""
    heard = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
    sys.exit(75 if signal.sigwait(heard) == signal.SIGUSR1 else 0)


if __name__ == "__main__":
    main()

"""A stand-in for the gateway program, which does in each run what a plan says.

`stand_in.py PLAN run --home DIR …`: PLAN is a file with one word per line, one for each run: an
exit code, `ready` or `orphan`. The last word counts for all later runs. Each run adds a
line to PLAN.runs.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path


def main() -> None:
    plan = Path(sys.argv[1])
    runs = Path(f"{plan}.runs")
    done = len(runs.read_text().splitlines()) if runs.exists() else 0
    with runs.open("a") as file:
        file.write(f"{os.getpid()} {_listening()} {' '.join(sys.argv[2:])}\n")
    words = plan.read_text().split()
    word = words[min(done, len(words) - 1)]
    if word == "orphan":
        # The shell ends at once, and leaves a child process that ends a moment later.
        subprocess.run(["sh", "-c", "sleep 0.05 & exit 0"], check=True)
        word = "ready"
    if word != "ready":
        print(f"stand-in: the plan says {word}", file=sys.stderr, flush=True)
        sys.exit(int(word))
    _be_ready()


def _listening() -> str:
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return "-"
    with socket.socket(fileno=3) as sock:
        return f"{os.environ['LISTEN_FDS']}@{sock.getsockname()[1]}"


def _be_ready() -> None:
    """Report readiness and wait for a signal; SIGUSR1 is a restart, as of a supervised gateway."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify_socket:
        notify_socket.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
    sys.exit(75 if signal.sigwait(signals) == signal.SIGUSR1 else 0)


if __name__ == "__main__":
    main()

"""The processes of a benchmark: each started here, measured from /proc, and ended by its id."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of a whole process, in the kernel's numbering of clocks


class BenchmarkFailed(Exception):
    """Something did not run; the text says what, and where its log is."""


class ServerProcess:
    """A running process, measured from /proc: all its threads, none of its child processes."""

    def __init__(self, process: "subprocess.Popen[bytes]", *, log: Path) -> None:
        self.process = process
        self.log = log

    def read_first_line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BenchmarkFailed(f"{self.process.args!r} printed nothing; see {self.tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def cpu_seconds(self) -> float:
        """User and system time of all its threads, to the microsecond: /proc/PID/stat counts in
        steps of 10 ms, which is 5 % of a run with one session."""
        clock = (~self.process.pid << 3) | _PROCESS_CLOCK  # as clock_getcpuclockid(3) makes it
        return time.clock_gettime(clock)

    def rss_kb(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise BenchmarkFailed(f"process {self.process.pid} is gone; see {self.tail()}")

    def tail(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"{self.log}:\n{text[-2000:]}"

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    prints_first_line: bool = True,
) -> Iterator[ServerProcess]:
    """The process while the context is open. `talks`: its first line of output is read, and
    it prints nothing after that; otherwise all its output goes to the log."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if prints_first_line else file,
            stderr=file,
            env=None if env is None else dict(env),
        )
    server = ServerProcess(process, log=log)
    try:
        yield server
    finally:
        server.end()


@contextmanager
def model(directory: Path, *, delay: float = 0.0) -> Iterator[str]:
    """A model server in a process of its own; its base URL."""
    command = [sys.executable, str(HERE / "instant_model.py"), "--delay", str(delay)]
    with running(command, log=directory / "model.log") as server:
        yield f"http://127.0.0.1:{server.read_first_line()['port']}/v1"


def load(url: str, *, token: str, **options: object) -> dict[str, Any]:
    """Run the load to its end; its report. An error in any turn breaks the benchmark."""
    command = [sys.executable, str(HERE / "load.py"), "--url", url, "--token", token]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode != 0:
        raise BenchmarkFailed(f"{' '.join(command[1:])}\n{done.stdout}{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def cpu_of(command: Sequence[str | Path], *, times: int) -> float:
    """The least CPU milliseconds that the command took, over so many runs."""
    return min(_cpu_once([str(part) for part in command]) for _ in range(times)) * 1000


def _cpu_once(command: list[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchmarkFailed(f"{' '.join(command)} exited {process.returncode}: {errors.decode()}")
    return usage.ru_utime + usage.ru_stime

"""Counts the instructions of a turn, here and there: `bench/instructions.py OTHER_CHECKOUT`.

Time and CPU depend on what else the machine does; a count of instructions does not. Each gateway
runs under valgrind, which counts what the process executes outside the kernel, all threads
together. Work by the clock is counted too: two counts of one version differed by 1 % with
16 sessions, and by up to 14 % in 30 turns of one session, which has 100 now.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import subjects
from measures import run_load
from processes import BenchmarkFailed, model

LOADS = {"16 sessions": (16, 20, 16), "1 session": (5, 20, 1)}  # sessions, turns, at a time
START_LIMIT = 300.0  # seconds; valgrind makes a start forty times slower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    other = parser.parse_args().other.resolve() / ".venv" / "bin" / "holdfast"
    subjects.START_LIMIT = START_LIMIT
    print(f"{'thousand instructions per turn':32} {'other':>9} {'this':>9}  ratio")
    for name, (sessions, turns, at_a_time) in LOADS.items():
        before, after = (
            instructions_per_turn(program, sessions=sessions, turns=turns, at_a_time=at_a_time)
            for program in (other, subjects.HOLDFAST)
        )
        print(f"{name:32} {before / 1000:9.0f} {after / 1000:9.0f}  {after / before:5.3f}")


def instructions_per_turn(program: Path, *, sessions: int, turns: int, at_a_time: int) -> float:
    with tempfile.TemporaryDirectory(prefix="holdfast-instructions-") as folder:
        counts = Path(folder) / "counts"
        wrapper = _wrapper(program, Path(folder) / "holdfast", counts=counts)
        with (
            model(Path(folder)) as model_url,
            subjects.gateway(Path(folder), model_url=model_url, program=wrapper) as subject,
        ):
            run_load(subject, sessions=at_a_time, turns=2, at_a_time=at_a_time)  # warm up
            process = str(subject.server.process.pid)
            _control("--instr=on", process)
            run_load(subject, sessions=sessions, turns=turns, at_a_time=at_a_time)
            _control("--instr=off", process)
            _control("--dump", process)
            return _total(Path(folder)) / (sessions * turns)


def _wrapper(program: Path, path: Path, *, counts: Path) -> Path:
    """A program that runs the gateway under valgrind, and all other commands as they are."""
    valgrind = f"valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file={counts}"
    python = program.with_name("python")
    path.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = run ]; then exec {valgrind} {python} {program} run; fi\n'
        f'exec {program} "$@"\n'
    )
    path.chmod(0o700)
    return path


def _control(command: str, process: str) -> None:
    done = subprocess.run(
        ["callgrind_control", command, process], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BenchmarkFailed(f"callgrind_control {command}: {done.stdout}{done.stderr}")


def _total(folder: Path) -> int:
    lines = (line for file in folder.glob("counts*") for line in file.read_text().splitlines())
    return max(int(line.split()[1]) for line in lines if line.startswith("totals:"))


if __name__ == "__main__":
    main()

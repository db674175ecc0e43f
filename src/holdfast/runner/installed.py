"""The copy of the runner's program that runners are started from."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

PROGRAM_SOURCE = Path(__file__).parent / "program"


def install_program(runs: Path, python: str) -> Path:
    """A compiled copy of the program, so that starting costs no compiling, wherever the
    package lies and whatever its permissions are."""
    sources = sorted(PROGRAM_SOURCE.glob("*.py"))
    digest = hashlib.sha256(python.encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = runs / f".program-{digest.hexdigest()[:16]}"
    if target.exists():
        return target
    runs.mkdir(mode=0o700, exist_ok=True)
    draft = runs / f".draft-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    (draft / "program").mkdir(parents=True)
    for source in sources:
        shutil.copyfile(source, draft / "program" / source.name)
    compiling = [python, "-I", "-S", "-m", "compileall", "-q", "program"]
    subprocess.run(compiling, cwd=draft, env={}, check=False, capture_output=True)
    for path in (draft, *draft.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for old in runs.glob(".program-*"):
        shutil.rmtree(old)  # a runner that runs from it has read all of it
    draft.rename(target)
    return target

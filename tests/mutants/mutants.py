"""Mutants: deliberate faults, each a patch that says what it breaks and which tests notice."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COPIED = ("src", "tests", "pyproject.toml")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*_cache")


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. `red` are arguments to pytest: the tests that must fail with it, and no others."""

    name: str
    breaks: str
    red: str
    patch: Path

    @staticmethod
    def arguments(red: str) -> list[str]:
        return shlex.split(red)

    @property
    def files(self) -> list[str]:
        """The files of tests that it names."""
        return [each for each in self.arguments(self.red) if each.endswith(".py")]

    @property
    def changes(self) -> list[str]:
        """The files of the source that it changes."""
        lines = self.patch.read_text().splitlines()
        return [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/")]

    def apply(self, tree: Path) -> str:
        """Change the copy in `tree`; returns why that cannot be done, or "".

        One line of context on either side is enough: a neighbour may be edited without a word here.
        """
        done = subprocess.run(
            ["git", "apply", "-C1", str(self.patch)],
            cwd=tree,
            capture_output=True,
            text=True,
            # The copy is no repository, whatever stands above it: paths are those of the copy.
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)},
        )
        return done.stderr.strip() if done.returncode else ""


def known() -> list[Mutant]:
    return [_read(path) for path in sorted(HERE.glob("*.patch"))]


def copy_tree(to: Path, *, only: Sequence[str] = COPIED) -> None:
    """What the tests of a mutant need, in a new folder: the working tree is never touched."""
    for name in only:
        source, copy = ROOT / name, to / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=LEFT_OUT)
        else:
            shutil.copy2(source, copy)


def _read(path: Path) -> Mutant:
    breaks, red = path.read_text().splitlines()[:2]
    if not breaks.startswith("Breaks: ") or not red.startswith("Red: "):
        raise ValueError(f"{path} must begin with a line 'Breaks: …' and a line 'Red: …'")
    return Mutant(
        name=path.stem,
        breaks=breaks.removeprefix("Breaks: "),
        red=red.removeprefix("Red: "),
        patch=path,
    )

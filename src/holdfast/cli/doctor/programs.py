"""Programs: the interpreter, the database library, and the sandbox, found out by trying."""

import platform
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import apsw

from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthFinding, ok_finding
from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.core.errors import RunnerError
from holdfast.runner.sandbox import BUBBLEWRAP_HINT, make_plan

_MIN_PYTHON = (3, 11)


class VersionsCheck:
    name = "versions"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        told = (
            f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
            f"{platform.system()} {platform.release()}."
        )
        if sys.version_info >= _MIN_PYTHON:
            yield ok_finding(told)
            return
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=told,
            why="Holdfast is made for Python 3.11 and later.",
            remedy="Install it with a newer Python.",
        )


class SandboxCheck:
    name = "sandbox"

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        settings = examined.config.settings.runner if examined.config else RunnerSettings()
        try:
            # In a folder of its own: a plan is tried with a copy of the runner's program.
            with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
                plan = make_plan(settings, runs=Path(folder))
        except RunnerError as error:
            yield HealthFinding(
                level=FindingLevel.PROBLEM,
                what=f"No command can be run: {error}",
                why="Agents that use a terminal cannot work, and the gateway does not start.",
                remedy=f"To have a sandbox: {BUBBLEWRAP_HINT}.",
            )
            return
        if plan.sandboxed:
            yield ok_finding("Commands are confined: bubblewrap was tried, and works.")
            return
        off = settings.sandbox is SandboxMode.OFF
        yield HealthFinding(
            level=FindingLevel.WARNING if off else FindingLevel.PROBLEM,
            what=f"Commands run without a sandbox: {plan.why_unsandboxed}.",
            why="They can read and change whatever the gateway can, its keys included.",
            remedy='Set runner.sandbox to "auto".' if off else f"{BUBBLEWRAP_HINT.capitalize()}.",
        )

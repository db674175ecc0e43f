"""Programs: the interpreter, the database library, and the sandbox, found out by trying."""

import platform
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import apsw

from holdfast.cli.doctor.finding import Finding, Level, Patient, fine
from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.core.errors import RunnerError
from holdfast.runner.sandbox import HOW_TO_GET_IT, make_plan

_OLDEST = (3, 11)


class Versions:
    name = "versions"

    def look(self, patient: Patient) -> Iterable[Finding]:
        told = (
            f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
            f"{platform.system()} {platform.release()}."
        )
        if sys.version_info >= _OLDEST:
            yield fine(told)
            return
        yield Finding(
            level=Level.PROBLEM,
            what=told,
            why="Holdfast is made for Python 3.11 and later.",
            remedy="Install it with a newer Python.",
        )


class Sandbox:
    name = "sandbox"

    def look(self, patient: Patient) -> Iterable[Finding]:
        settings = patient.config.settings.runner if patient.config else RunnerSettings()
        try:
            # In a folder of its own: a plan is tried with a copy of the runner's program.
            with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
                plan = make_plan(settings, runs=Path(folder))
        except RunnerError as error:
            yield Finding(
                level=Level.PROBLEM,
                what=f"No command can be run: {error}",
                why="Agents that use a terminal cannot work, and the gateway does not start.",
                remedy=f"To have a sandbox: {HOW_TO_GET_IT}.",
            )
            return
        if plan.sandboxed:
            yield fine("Commands are confined: bubblewrap was tried, and works.")
            return
        off = settings.sandbox is SandboxMode.OFF
        yield Finding(
            level=Level.WARNING if off else Level.PROBLEM,
            what=f"Commands run without a sandbox: {plan.why_unsandboxed}.",
            why="They can read and change whatever the gateway can, its keys included.",
            remedy='Set runner.sandbox to "auto".' if off else f"{HOW_TO_GET_IT.capitalize()}.",
        )

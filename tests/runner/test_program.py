"""The runner program: the interpreters it runs on, the copy it runs from, its user ids."""

import ast
import sys
from pathlib import Path

import pytest
from tests.runner.runner_log import SESSION_ID, OpenRunners

import holdfast.runner.program
from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.core.ids import CallId, SessionId
from holdfast.runner.bubblewrap import make_plan, session_uid
from holdfast.runner.launch import launch_runner
from holdfast.runner.paths import SessionPaths
from holdfast.runner.runners import Runners

SOURCES = sorted(Path(holdfast.runner.program.__file__).parent.glob("*.py"))
WHOLE = "0 0 4294967295\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_runner_program_is_python_3_9_with_only_the_standard_library(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= sys.stdlib_module_names
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module and node.module.split(".")[0] in sys.stdlib_module_names


async def test_an_interpreter_outside_usr_is_brought_into_the_sandbox(
    home: Path, open_runners: OpenRunners
) -> None:
    """Where the system has no Python, ours is used, with its folder and nothing beside it."""
    settings = RunnerSettings()
    (home / "runs").mkdir()
    plan = make_plan(settings, runs=home / "runs", system_python="/nowhere/python3")
    assert Path(plan.python).is_relative_to(sys.base_prefix)
    launch_runner(SessionPaths(home, SESSION_ID), plan, settings)
    runners: Runners = open_runners()
    beside = Path(sys.base_prefix).parent
    script = f"tr '\\0' '\\n' </proc/1/cmdline | head -n 1; ls -A {beside}"
    result = await runners.sandbox(SESSION_ID).run(CallId("c"), script, limit=60)
    lines = result.output.splitlines()
    assert lines[0] == plan.python
    if plan.prefix:
        assert lines[1:] == [Path(sys.base_prefix).name]


def test_the_copy_of_the_program_is_made_once_and_replaces_the_last(tmp_path: Path) -> None:
    (tmp_path / ".program-old").mkdir()
    first = make_plan(RunnerSettings(sandbox=SandboxMode.OFF), runs=tmp_path).program
    made = (first / "program" / "main.py").stat().st_mtime_ns
    again = make_plan(RunnerSettings(sandbox=SandboxMode.OFF), runs=tmp_path).program
    assert again == first
    assert (first / "program" / "main.py").stat().st_mtime_ns == made
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    assert list((first / "program" / "__pycache__").glob("main.*.pyc"))


def test_each_session_has_its_own_user_id() -> None:
    users = {session_uid(SessionId(f"s_{n}"), WHOLE) for n in range(1000)}
    assert len(users) == 1000
    assert min(users) >= 1_879_048_192 and max(users) < 1 << 31
    assert session_uid(SESSION_ID, WHOLE) == session_uid(SESSION_ID, WHOLE)


def test_root_in_a_user_namespace_uses_a_mapped_user_id() -> None:
    assert 20_000 <= session_uid(SESSION_ID, "0 100000 65536\n") < 60_000
    with pytest.raises(Exception, match="Run it as another user"):
        session_uid(SESSION_ID, "0 1000 1\n")

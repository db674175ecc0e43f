"""The command line answers in the configured language, else in that of the shell."""

import ast
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest
from tests.support.command_line import Cli

import holdfast
from holdfast.cli.common.language import phase_text, state_text, translate_command
from holdfast.cli.root import cli as root
from holdfast.config.language import preferred_language
from holdfast.core.jobs.job import RunState
from holdfast.core.messages.inbox import InboxState
from holdfast.core.people.approval import ApprovalState
from holdfast.core.text.translation import use_catalogue
from holdfast.system.languages import PseudoCatalogue

SHELL = {"LC_ALL": "en_XA.UTF-8"}  # the pseudo-locale, which shows texts as ⟦…⟧


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path


def test_help_is_translated_where_it_is_shown(cli: Cli) -> None:
    shown = cli("jobs", "--help", **SHELL).stdout
    assert "⟦Schedule tasks for agents, once or regularly, and see the results.⟧" in shown
    assert "⟦Schedule TEXT as a task for WHEN.⟧" in shown, "the help of a command of a group"
    assert "  ⟦Where the gateway keeps its data." in shown, "the help of an option"
    assert '\n    holdfast jobs add "in 2 hours" ' in shown, "examples keep their lines"
    assert "⟦Schedule tasks" in cli("--help", **SHELL).stdout, "the list of commands"


def test_the_texts_of_click_are_translated(cli: Cli) -> None:
    assert "⟦Usage:⟧ holdfast jobs" in cli("jobs", "--help", **SHELL).stdout
    refused = cli("jobs", "edit", **SHELL).stderr
    assert "⟦Try 'holdfast jobs edit --help' for help.⟧" in refused
    assert "⟦Missing argument⟧ 'N'" in refused
    assert "Did you mean 'jobs'?⟧" in cli("jbs", **SHELL).stderr


def test_an_error_is_translated(cli: Cli) -> None:
    assert cli("--home", "/dev/null", "status", **SHELL).stderr.startswith("⟦error:⟧ ")


def test_the_configured_language_goes_before_that_of_the_shell(cli: Cli, home: Path) -> None:
    (home / "holdfast.toml").write_text('[gateway]\nlanguage = "en-XA"\n')
    assert "⟦Usage:⟧" in cli("--help").stdout
    assert "⟦Usage:⟧" in cli("jobs", "--help", "--home", str(home), HOLDFAST_HOME="/none").stdout
    (home / "holdfast.toml").write_text('[gateway]\nlanguage = "en"\n')
    assert "⟦" not in cli("--help", **SHELL).stdout


def test_the_language_of_the_shell_is_in_the_variables_of_posix(home: Path) -> None:
    def found(**environ: str) -> str:
        return preferred_language(str(home), environ)

    assert found() == ""
    assert found(LANG="de_DE.UTF-8") == "de_DE.UTF-8"
    assert found(LANG="de", LC_MESSAGES="fr") == "fr"
    assert found(LANG="de", LC_MESSAGES="fr", LC_ALL="pt_BR") == "pt_BR"
    assert found(LANG="de", LC_ALL="") == "de"
    assert found(LANG="de", HOLDFAST_GATEWAY_LANGUAGE="it") == "it"


@pytest.mark.parametrize("text", ["[gateway\nlanguage", "language = 1", 'gateway = "language"'])
def test_an_unusable_configuration_has_no_language(home: Path, text: str) -> None:
    """The command that loads it reports what is wrong with it."""
    (home / "holdfast.toml").write_text(text)
    assert preferred_language(str(home), {"LANG": "de"}) == "de"


def test_english_loads_no_catalogue_and_copies_no_command() -> None:
    assert translate_command(root) is root
    code = (
        "import sys; from holdfast.cli.common.language import choose_language;"
        "choose_language([]); import holdfast.cli.root;"
        "print([m for m in ('babel', 'tomllib', 'msgspec') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


@pytest.mark.parametrize("states", [RunState, InboxState, ApprovalState])
def test_every_state_of_a_list_has_a_text(states: type[StrEnum]) -> None:
    """Of job runs, messages and approvals."""
    with use_catalogue(PseudoCatalogue()):
        assert [state for state in states if not state_text(state).startswith("⟦")] == []


def _phases() -> set[str]:
    """The names that the source gives to the phases of a start and a stop."""
    found = set()
    for file in Path(holdfast.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args:
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
                name = called.id if isinstance(called, ast.Name) else called
                if name in ("Phase", "_enter_phase"):
                    found.add(ast.unparse(node.args[0]))
    return found


def test_every_phase_of_a_start_and_a_stop_is_marked_and_known_to_the_page() -> None:
    names = {re.sub(r"^N_\('(.*)'\)$", r"\1", each) for each in _phases()}
    names = {"drain" if each == "DRAIN" else each for each in names} - {"phase"}
    assert len(names) > 25
    assert not [each for each in names if "(" in each or "'" in each], "not marked by N_"
    page = Path(holdfast.__file__).parent / "server/page/static/board/restarts.js"
    listed = page.read_text().partition("const PHASES = {")[2].partition("};")[0]
    assert set(re.findall(r'^ +"(.*)": _\("\1"\),$', listed, re.MULTILINE)) == names


def test_a_phase_is_shown_in_the_language_of_its_reader() -> None:
    with use_catalogue(PseudoCatalogue()):
        for phase in ("close intake", "draining: 1 turn", "draining: 2 turns"):
            assert phase_text(phase) == f"⟦{phase}⟧"

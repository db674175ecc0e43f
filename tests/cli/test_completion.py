"""Shell completion: a shell accepts the scripts, and they complete commands and sessions."""

import json
import os
import shutil
import subprocess

import pytest
from tests.support.command_line import HOLDFAST, Cli, CliGateway


def completions(words: str, *, environ: dict[str, str]) -> list[str]:
    """The completions of the last word, by running the script in bash."""
    script = f"""
        eval "$(holdfast completion bash)"
        COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _holdfast_completion holdfast
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{HOLDFAST.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_commands_options_and_choices() -> None:
    assert completions("holdfast se", environ={}) == ["send", "setup", "sessions", "search"]
    assert "--session" in completions("holdfast chat --", environ={})
    assert completions("holdfast logs --level w", environ={}) == ["warning"]


def test_sessions_are_offered_by_name(shared_gateway: CliGateway, cli: Cli) -> None:
    cli("ask", "--session", "orchard", "hi", **shared_gateway.environ)
    assert completions("holdfast sessions show orc", environ=shared_gateway.environ) == ["orchard"]
    assert completions("holdfast chat --session orc", environ=shared_gateway.environ) == ["orchard"]
    made = cli(
        "jobs", "add", "every day at 9", "water it", "--json", **shared_gateway.environ
    ).stdout
    number = str(json.loads(made)["id"])
    assert number in completions(f"holdfast jobs edit {number}", environ=shared_gateway.environ)
    assert "1" in completions("holdfast config rollback ''", environ=shared_gateway.environ)


def test_completion_offers_nothing_and_does_not_fail_without_a_gateway(tmp_path: object) -> None:
    assert (
        completions("holdfast sessions show x", environ={"HOLDFAST_HOME": f"{tmp_path}/no"})
        == [""][:0]
    )


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_too(cli: Cli, shell: str) -> None:
    script = cli("completion", shell)
    assert script.returncode == 0
    assert "_HOLDFAST_COMPLETE" in script.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script.stdout, text=True, check=False)
        assert checked.returncode == 0

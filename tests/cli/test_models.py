"""`holdfast models` says what is set up and whether it works, and never a key."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_process import KEY

from holdfast.models.local.server import INSTALL_COMMAND, find_model_file
from holdfast.models.target import InvalidTarget
from holdfast.testing.misbehaving_model.process import ModelProcess

RunModels = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, keyed_model: ModelProcess) -> RunModels:
    """Run `holdfast models` in an environment of its own."""

    def make(*args: str, toml: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
        home = tmp_path / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "holdfast.toml").write_text(toml.replace("BASE", keyed_model.base_url))
        return subprocess.run(
            [sys.executable, "-m", "holdfast.cli", "models", *args, "--home", str(home)],
            env={"PATH": os.environ["PATH"], "THE_KEY": KEY, "HOLDFAST_MODEL_DISCOVER": "",
                 **environ},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )  # fmt: skip

    return make


TWO = """
[model]
provider = "anthropic"
name = "claude-x"
base_url = "BASE"
api_key = "env:THE_KEY"

[[model.fallbacks]]
provider = "openai"
name = "gpt-x"
base_url = "http://127.0.0.1:1/v1"
"""


def parsed(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    assert KEY not in done.stdout + done.stderr
    return json.loads(done.stdout)["models"]  # type: ignore[no-any-return]


def test_the_list_has_the_configured_models_and_those_of_their_servers(run: RunModels) -> None:
    first, second = parsed(run("list", "--json", toml=TWO))
    assert first["role"] == "model"
    assert (first["provider"], first["name"]) == ("anthropic", "claude-x")
    assert first["api_mode"] == "anthropic_messages"
    assert first["key"] == "env:THE_KEY"
    assert first["offers"] == ["scripted"]
    assert "holdfast.toml" in first["why"]
    assert (second["role"], second["offers"]) == ("fallback 1", [])
    assert "could not be reached" in second["problem"]


def test_list_without_any_configuration_says_what_was_found_and_why(
    run: RunModels, keyed_model: ModelProcess
) -> None:
    (demo,) = parsed(run("list", "--json"))
    assert (demo["provider"], demo["name"]) == ("demo", "demo")
    found = run("list", HOLDFAST_MODEL_DISCOVER=keyed_model.base_url)
    assert "scripted" in found.stdout
    assert f"answers at {keyed_model.base_url}" in found.stdout


def test_check_says_whether_and_how_fast(run: RunModels, keyed_model: ModelProcess) -> None:
    keyed_model.script(
        {"match": "Count", "text": "one two three " * 20, "delay": 0.002},
        {"match": "report", "calls": [{"name": "report", "arguments": {"word": "ready"}}]},
    )
    done = run("check", "claude-x", "--json", toml=TWO)
    (found,) = parsed(done)
    assert done.returncode == 0
    assert found["name"] == "claude-x"
    assert (found["reachable"], found["streams"], found["tools"]) == (True, True, True)
    assert found["first_token_ms"] > 0
    assert found["tokens_per_second"] > 0
    assert found["problem"] == ""


def test_a_check_of_a_model_that_does_not_answer_fails_with_a_reason(run: RunModels) -> None:
    done = run("check", toml=TWO)
    assert done.returncode == 1
    assert "could not be reached" in done.stderr
    assert [line.split()[2] for line in done.stdout.splitlines()[1:3]] == ["yes", "no"]
    refused = run("check", toml=TWO, THE_KEY="sk-a-wrong-one")
    assert "does not accept the API key" in refused.stderr
    assert "sk-a-wrong-one" not in refused.stdout + refused.stderr


def test_check_tells_a_new_user_what_the_demo_is(run: RunModels) -> None:
    done = run("check")
    assert done.returncode == 0
    assert "a script, not a model" in done.stdout
    assert "holdfast setup" in done.stdout


def test_check_tells_a_new_user_what_the_small_model_cannot_do(run: RunModels) -> None:
    try:
        find_model_file("")
    except InvalidTarget:
        pytest.skip(f"the small model is not installed; install it: {INSTALL_COMMAND}")
    done = run("check", HOLDFAST_MODEL_PROVIDER="local")
    assert done.returncode == 0, done.stderr
    assert "cannot run commands" in done.stdout
    (checked,) = parsed(run("check", "--json", HOLDFAST_MODEL_PROVIDER="local"))
    assert (checked["streams"], checked["tools"]) == (True, False)


def test_check_takes_another_name_of_the_same_provider(
    run: RunModels, keyed_model: ModelProcess
) -> None:
    parsed(run("check", "claude-y", "--json", toml=TWO))
    assert {body["model"] for body in keyed_model.requests()["requests"]} == {"claude-y"}


def test_a_model_that_cannot_be_called_is_a_configuration_error(run: RunModels) -> None:
    done = run("check", toml='[model]\nprovider = "local"\nname = "none-such"\n')
    assert done.returncode != 0
    assert "model.name" in done.stderr or "pip install" in done.stderr

"""Every mistake of the first five minutes ends in one message that says what to do."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.command_line import HOLDFAST, Cli, CliGateway, environment, running_gateway

from holdfast.system import exit_codes
from holdfast.testing.misbehaving_model.process import ModelProcess


def greeting(tmp_path: Path, *args: str, **environ: str) -> str:
    """Start a gateway; the text it prints."""
    with subprocess.Popen(
        [HOLDFAST, "run", *args],
        env=environment(tmp_path) | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        process.terminate()
    return "".join(lines)


def test_the_greeting_says_what_to_try_in_order(tmp_path: Path) -> None:
    said = greeting(tmp_path, "--port", "0")
    page, chat, curl = said.index("/login?key="), said.index(" chat"), said.index("curl ")
    assert page < chat < curl
    assert " setup" in said
    assert len(said.splitlines()) <= 18


def test_the_greeting_names_the_program_as_the_shell_knows_it(tmp_path: Path) -> None:
    assert f"{HOLDFAST} chat" in greeting(tmp_path, "--port", "0", PATH="/usr/bin")
    known = f"{HOLDFAST.parent}:/usr/bin"
    assert "\n  holdfast chat" in greeting(tmp_path, "--port", "0", PATH=known)


def test_a_taken_default_port_is_replaced_and_the_greeting_says_why(tmp_path: Path) -> None:
    try:
        with socket.create_server(("127.0.0.1", 8787)):
            said = greeting(tmp_path)
    except OSError:
        said = greeting(tmp_path)  # another program has it already
    if ":8787\n" not in said:
        assert "(port 8787 is in use by another program)" in said


def cli_run(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HOLDFAST, "run", *args],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_taken_configured_port_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = cli_run(tmp_path, "--port", str(taken.getsockname()[1]))
    assert refused.returncode == exit_codes.FAILED
    assert "--port" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_second_start_names_the_first(shared_gateway: CliGateway, cli: Cli) -> None:
    refused = cli("run", **shared_gateway.environ)
    assert refused.returncode == exit_codes.HOME_IN_USE
    assert shared_gateway.address in refused.stderr
    assert "--home" in refused.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["chat"],
        ["ask", "x"],
        ["status"],
        ["logs"],
        ["setup", "--provider", "demo"],
        ["gateway", "stop"],
        ["backup", "create"],
    ],
)
def test_a_home_that_may_not_be_read_is_one_message(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "home").mkdir(mode=0)
    refused = run_as_another_user(tmp_path, *command)
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert str(tmp_path / "home") in refused.stderr
    assert "No gateway is running" not in refused.stderr  # unknown, since the home cannot be read


def test_a_home_that_others_may_list_is_stopped_by_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "home" / "run").mkdir(parents=True)
    (tmp_path / "home" / "run").chmod(0)
    refused = run_as_another_user(tmp_path, "gateway", "stop")
    assert refused.returncode == exit_codes.GATEWAY_DOWN
    assert "Traceback" not in refused.stderr


def run_as_another_user(tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command without the right to read files of others, also as root."""
    setpriv = shutil.which("setpriv")
    if os.getuid() == 0 and setpriv is None:
        pytest.skip("root reads everything, and setpriv (util-linux) is not there to stop it")
    limits = ["--bounding-set", "-dac_override,-dac_read_search"]
    as_other_user = [setpriv, *limits] if setpriv and os.getuid() == 0 else []
    return subprocess.run(
        [*as_other_user, HOLDFAST, *command],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_wrong_key_is_reported_in_the_reply(cli: Cli, tmp_path: Path) -> None:
    with ModelProcess("--key", "right") as provider, running_gateway(tmp_path, provider):
        refused = cli("ask", "hello")
    assert refused.returncode == exit_codes.FAILED
    assert "key" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_old_python_is_refused_with_the_required_version() -> None:
    """Compiled for every version that may be met, and run with one that is too old by its word."""
    entry = Path(sys.modules["holdfast"].__file__ or "").parent / "cli" / "entry.py"
    code = (
        f"import sys; sys.version_info = (3, 9, 0); sys.version = '3.9.0 (old)'; sys.argv = ['x'];"
        f"ns = {{}}; exec(compile(open({str(entry)!r}).read(), 'entry', 'exec'), ns); ns['main']()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"needs Python 3\.11 or newer; this is 3\.9\.0", done.stderr)

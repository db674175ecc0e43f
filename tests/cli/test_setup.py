"""`holdfast setup` writes a model that answers into the configuration, and changes nothing else."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.command_line import Cli, CliGateway, Terminal

from holdfast.cli.common.config_files import set_env_variable
from holdfast.config.environment import read_dotenv
from holdfast.config.toml_edit import UnpatchableToml, patch_table
from holdfast.system import exit_codes
from holdfast.testing.misbehaving_model.process import ModelProcess

KEY = "sk-right-0123456789"
NOWHERE = ("--base-url", "http://127.0.0.1:9/v1", "--no-test")

MINE = """\
# my bot
[gateway]
port = 9000  # not 8787

[model]  # chosen in spring
# cheap and good
provider = "openrouter"   # for now
retries = 7
api_mode = "chat_completions"
api_key = 'env:OPENROUTER_API_KEY'

[agent]
instructions = \"\"\"
[model]
provider = "not this one"
\"\"\"
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[ModelProcess]:
    with ModelProcess("--key", KEY) as process:
        yield process


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def options(provider: ModelProcess, *more: str) -> list[str]:
    return ["--provider", "openai", "--base-url", provider.base_url, "--name", "m1", *more]


def test_a_right_key_is_tried_and_written_for_its_owner_alone(
    cli: Cli, home: Path, provider: ModelProcess
) -> None:
    arguments = options(provider, "--key-from-env", "MY_KEY")
    done = cli("setup", *arguments, MY_KEY=KEY)
    assert done.returncode == 0, done.stderr
    assert "It answers after" in done.stdout
    assert "holdfast run" in done.stdout
    assert KEY not in done.stdout + done.stderr + (home / "holdfast.toml").read_text()
    assert (home / ".env").stat().st_mode & 0o777 == 0o600
    assert read_dotenv(home / ".env").values == {"MY_KEY": KEY}
    model = tomllib.loads((home / "holdfast.toml").read_text())["model"]
    assert model["api_key"] == "env:MY_KEY"
    assert cli("config", "check").returncode == 0
    before = (home / "holdfast.toml").read_text(), (home / ".env").read_text()
    assert cli("setup", *arguments, MY_KEY=KEY).returncode == 0
    assert ((home / "holdfast.toml").read_text(), (home / ".env").read_text()) == before


def test_a_key_for_another_machine_is_not_set_up_over_plain_http(cli: Cli, home: Path) -> None:
    """And a choice ends the permission that was given for an earlier address."""
    model = ["--name", "m1", "--no-test"]
    plain = ["setup", "--provider", "openai", "--base-url", "http://10.0.0.9/v1", *model]
    refused = cli(*plain, OPENAI_API_KEY=KEY)
    assert refused.returncode == exit_codes.FAILED
    assert "allow_unencrypted = true" in refused.stderr
    assert not (home / "holdfast.toml").exists()
    home.mkdir(exist_ok=True)
    (home / "holdfast.toml").write_text("[model]\nallow_unencrypted = true\n")
    encrypted = [each.replace("http:", "https:") for each in plain]
    assert cli(*encrypted, OPENAI_API_KEY=KEY).returncode == 0
    assert "allow_unencrypted" not in (home / "holdfast.toml").read_text()


def test_a_wrong_key_writes_nothing_and_says_what_to_do(
    cli: Cli, home: Path, provider: ModelProcess
) -> None:
    refused = cli("setup", *options(provider, "--key-from-env", "MY_KEY"), MY_KEY="sk-wrong")
    assert refused.returncode == exit_codes.FAILED
    assert "nothing was written" in refused.stderr
    assert "key" in refused.stderr
    assert "sk-wrong" not in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
    assert not (home / "holdfast.toml").exists()


def test_a_missing_network_is_reported_and_no_test_writes_anyway(cli: Cli, home: Path) -> None:
    arguments = ["--provider", "local", "--base-url", "http://127.0.0.1:1/v1", "--name", "m"]
    refused = cli("setup", *arguments)
    assert refused.returncode == exit_codes.FAILED
    assert "127.0.0.1:1" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert cli("setup", *arguments, "--no-test").returncode == 0
    assert (home / "holdfast.toml").exists()


def test_a_missing_key_names_the_page_where_one_is_made(cli: Cli) -> None:
    refused = cli("setup", "--provider", "anthropic")
    assert refused.returncode == exit_codes.FAILED
    assert "https://console.anthropic.com/settings/keys" in refused.stderr
    unset = cli("setup", "--provider", "openai", "--key-from-env", "NOWHERE")
    assert "NOWHERE is not set" in unset.stderr


def test_without_a_terminal_setup_names_the_missing_options(cli: Cli) -> None:
    refused = cli("setup")
    assert refused.returncode == exit_codes.USAGE
    assert "--provider" in refused.stderr


def test_a_person_is_asked_and_the_key_is_not_shown(
    open_terminal: Callable[..., Terminal], home: Path, provider: ModelProcess
) -> None:
    terminal = open_terminal("setup", "--base-url", provider.base_url)
    terminal.wait_for_text("Number [1]: ")
    terminal.type_line("gpt")
    terminal.wait_for_text("'gpt' is not in the list. Type a number from 1 to 5.")
    terminal.wait_for_text("Number [1]: ")
    terminal.type_line("2")
    terminal.wait_for_text("https://platform.openai.com/api-keys")
    terminal.wait_for_text("not shown): ")
    terminal.type_line(KEY)
    terminal.wait_for_text("Model [")
    terminal.type_line("m1")
    terminal.wait_for_text("It answers")
    terminal.wait_for_text('+provider = "openai"')
    terminal.wait_for_text("Write this? [Y/n]: ")
    terminal.type_line("")
    assert terminal.wait_for_exit() == 0
    assert KEY not in terminal.text
    assert read_dotenv(home / ".env").values == {"OPENAI_API_KEY": KEY}


def test_a_key_that_the_shell_would_hide_gets_a_variable_of_its_own(
    open_terminal: Callable[..., Terminal], home: Path, provider: ModelProcess
) -> None:
    terminal = open_terminal("setup", "--base-url", provider.base_url, OPENAI_API_KEY="sk-old")
    terminal.wait_for_text("Number [1]: ")
    terminal.type_line("2")
    terminal.wait_for_text("Use it? [Y/n]: ")
    terminal.type_line("n")
    terminal.wait_for_text("not shown): ")
    terminal.type_line(KEY)
    terminal.wait_for_text("Model [")
    terminal.type_line("m1")
    terminal.wait_for_text("Write this? [Y/n]: ")
    terminal.type_line("")
    assert terminal.wait_for_exit() == 0
    assert read_dotenv(home / ".env").values == {"OPENAI_API_KEY_HOLDFAST": KEY}


@pytest.fixture(scope="module")
def local_server() -> Iterator[ModelProcess]:
    """A server like Ollama: several models, the first of them for embeddings."""
    names = ("nomic-embed-text", "qwen3:8b", "llama3.2")
    with ModelProcess(*(part for name in names for part in ("--model", name))) as process:
        yield process


def test_the_models_of_a_local_server_are_listed_and_one_is_proposed(
    open_terminal: Callable[..., Terminal], home: Path, local_server: ModelProcess
) -> None:
    """After an address at which no server answers, it asks again. `/v1` need not be typed."""
    terminal = open_terminal("setup")
    terminal.wait_for_text("Number [1]: ")
    terminal.type_line("local")
    terminal.wait_for_text("Address of the server [http://127.0.0.1:11434/v1]: ")
    terminal.type_line("http://127.0.0.1:9")
    terminal.wait_for_text("127.0.0.1:9")
    terminal.wait_for_text("Use this address anyway? [y/N]: ")
    terminal.type_line("")
    terminal.wait_for_text("Address of the server [")
    terminal.type_line(f"127.0.0.1:{local_server.port}")
    terminal.wait_for_text("This server has these models:")
    terminal.wait_for_text("1  qwen3:8b")
    terminal.wait_for_text("2  llama3.2")
    terminal.wait_for_text("3  nomic-embed-text")
    terminal.wait_for_text("Number or name [qwen3:8b]: ")
    terminal.type_line("7")
    terminal.wait_for_text("'7' is not in the list. Type a number from 1 to 3, or a name.")
    terminal.wait_for_text("Number or name [qwen3:8b]: ")
    terminal.type_line("")
    terminal.wait_for_text("It answers")
    terminal.wait_for_text("Write this? [Y/n]: ")
    terminal.type_line("")
    assert terminal.wait_for_exit() == 0
    model = tomllib.loads((home / "holdfast.toml").read_text())["model"]
    assert (model["name"], model["base_url"]) == ("qwen3:8b", local_server.base_url)


def test_after_a_model_that_does_not_answer_it_asks_again(
    open_terminal: Callable[..., Terminal], home: Path, local_server: ModelProcess
) -> None:
    """Also where the address came from an option, which is then only proposed."""
    address = "http://127.0.0.1:9/v1"
    terminal = open_terminal("setup", "--base-url", address, OPENAI_API_KEY="sk-x")
    terminal.wait_for_text("Number [1]: ")
    terminal.type_line("openai")
    terminal.wait_for_text("Use it? [Y/n]: ")
    terminal.type_line("")
    terminal.wait_for_text("Model [")
    terminal.type_line("")
    terminal.wait_for_text("nothing was written")
    terminal.wait_for_text("Save the choice anyway? [y/N]: ")
    terminal.type_line("")
    terminal.wait_for_text("Number [1]: ")
    terminal.type_line("openai")
    terminal.wait_for_text(f"Address of the server [{address}]: ")
    terminal.type_line(local_server.base_url)
    terminal.wait_for_text("Use it? [Y/n]: ")
    terminal.type_line("")
    terminal.wait_for_text("Model [")
    terminal.type_line("")
    terminal.wait_for_text("It answers")
    terminal.wait_for_text("Write this? [Y/n]: ")
    terminal.type_line("")
    assert terminal.wait_for_exit() == 0
    assert local_server.base_url in (home / "holdfast.toml").read_text()


def test_without_a_terminal_the_first_model_of_a_local_server_is_used(
    cli: Cli, home: Path, local_server: ModelProcess
) -> None:
    address = local_server.base_url.removesuffix("/v1")
    done = cli("setup", "--provider", "local", "--base-url", address)
    assert done.returncode == 0, done.stderr
    model = tomllib.loads((home / "holdfast.toml").read_text())["model"]
    assert (model["name"], model["base_url"]) == ("qwen3:8b", local_server.base_url)


def test_a_running_gateway_applies_the_new_model_and_account(cli: Cli, gateway: CliGateway) -> None:
    done = cli("setup", "--provider", "local", "--name", "m1", *NOWHERE, **gateway.environ)
    assert done.returncode == 0, done.stderr
    assert "onfiguration 2 " in done.stdout  # which its watch may have found before it was asked
    assert "holdfast run" not in done.stdout
    account = ("--set", "host=127.0.0.1", "--set", "port=9", "--set", "tls=false", "--no-test")
    done = cli("platforms", "add", "irc", *account, **gateway.environ)
    assert done.returncode == 0, done.stderr
    assert "onfiguration 3 " in done.stdout
    assert "irc:default" in cli("platforms", "list", **gateway.environ).stdout


def test_only_the_model_is_touched_and_comments_stay() -> None:
    values = {
        "provider": "anthropic",
        "name": "claude",
        "api_mode": None,
        "api_key": "env:ANTHROPIC_API_KEY",
    }
    patched = patch_table(MINE, "model", values)
    assert patched == MINE.replace(
        'provider = "openrouter"   # for now', 'provider = "anthropic"   # for now', 1
    ).replace('api_mode = "chat_completions"\n', "").replace(
        "api_key = 'env:OPENROUTER_API_KEY'\n",
        'api_key = "env:ANTHROPIC_API_KEY"\nname = "claude"\n',
    )


@pytest.mark.parametrize(
    "text",
    [
        'model = "demo"\n',
        '[[model]]\nprovider = "demo"\n',
        "this is no TOML\n",
    ],
)
def test_a_change_that_is_not_safe_is_left_to_the_operator(text: str) -> None:
    with pytest.raises(UnpatchableToml):
        patch_table(text, "model", {"provider": "openai"})


def test_a_file_that_cannot_be_changed_is_shown_what_to_write(cli: Cli, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text('model = "demo"\n')
    refused = cli("setup", "--provider", "local", "--base-url", "http://127.0.0.1:1", "--no-test")
    assert refused.returncode == exit_codes.FAILED
    assert 'provider = "local"' in refused.stderr
    assert (home / "holdfast.toml").read_text() == 'model = "demo"\n'


def test_a_broken_file_is_reported_with_its_line_before_any_question(
    cli: Cli, open_terminal: Callable[..., Terminal], home: Path
) -> None:
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text("[agent\n")
    refused = cli("setup", "--provider", "demo")
    assert refused.returncode == exit_codes.CONFIG_EXIT
    assert "holdfast.toml, line 1: this is not TOML" in refused.stderr
    terminal = open_terminal("setup")
    terminal.wait_for_text("line 1: this is not TOML")
    assert terminal.wait_for_exit() == exit_codes.CONFIG_EXIT


def test_a_provider_can_be_chosen_by_its_name(
    open_terminal: Callable[..., Terminal], home: Path
) -> None:
    terminal = open_terminal("setup")
    terminal.wait_for_text("Number [1]: ")
    terminal.type_line("demo")
    terminal.wait_for_text("Write this? [Y/n]: ")
    terminal.type_line("")
    assert terminal.wait_for_exit() == 0
    assert 'provider = "demo"' in (home / "holdfast.toml").read_text()


KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


@settings(deadline=None)  # each writes a file to the disk
@given(value=KEYS)
def test_any_key_comes_back_from_the_env_file(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    path = tmp_path_factory.mktemp("env") / ".env"
    path.write_text("# mine\nOTHER=1\nexport K=old\n")
    set_env_variable(path, "K", value)
    assert read_dotenv(path).values == {"OTHER": "1", "K": value}
    assert path.read_text().startswith("# mine\nOTHER=1\n")
    assert path.stat().st_mode & 0o777 == 0o600


@given(name=st.text(max_size=20), provider=st.sampled_from(["openai", "demo"]))
def test_any_text_can_be_a_value(name: str, provider: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    patched = patch_table(MINE, "model", {"name": name, "provider": provider})
    model = tomllib.loads(patched)["model"]
    assert model.get("name", "") == name
    assert model["retries"] == 7

"""Loading a valid configuration: defaults, precedence, secrets, and how it is shown."""

import secrets
from pathlib import Path

import pytest

from holdfast.config import Config, ConfigError, json_schema, list_keys, load
from holdfast.core.config.settings import Provider, Settings
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.secrets import Secret
from holdfast.platforms.api.plugin import ApiSettings

STRONG = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def write_files(home: Path, toml: str = "", *, env: str = "") -> Path:
    (home / "holdfast.toml").write_text(toml)
    (home / ".env").write_text(env)
    (home / ".env").chmod(0o600)
    return home


def test_an_empty_home_gives_every_default(home: Path) -> None:
    config = load(home, {})
    assert config.settings == Settings()
    assert config.warnings == ()
    assert load(home / "not" / "there", {}).settings == Settings()


def test_environment_beats_env_file_beats_file(home: Path) -> None:
    write_files(
        home,
        "[gateway]\nport = 1\npark_timeout = 1\nrestart_drain_timeout = 1\n",
        env="HOLDFAST_GATEWAY_PARK_TIMEOUT=2\nHOLDFAST_GATEWAY_RESTART_DRAIN_TIMEOUT=2\n",
    )
    gateway = load(home, {"HOLDFAST_GATEWAY_RESTART_DRAIN_TIMEOUT": "3"}).settings.gateway
    assert (gateway.port, gateway.park_timeout, gateway.restart_drain_timeout) == (1, 2, 3)


def test_the_command_line_beats_everything(home: Path) -> None:
    config = load(home, {"HOLDFAST_GATEWAY_PORT": "3"}, overrides={"gateway.port": 0})
    assert config.settings.gateway.port == 0


def test_every_type_of_key_can_come_from_a_variable(home: Path) -> None:
    config = load(
        home,
        {
            "HOLDFAST_GATEWAY_BUSY_MODE": "queue",
            "HOLDFAST_AGENT_TOOLSETS": "web, todo,",
            "HOLDFAST_PLATFORMS_SIMULATED_ENABLED": "no",
            "HOLDFAST_PLATFORMS_SIMULATED_ALLOW": '["a,b"]',
            "HOLDFAST_MODEL_API_MODE": "",
            "HOLDFAST_MODEL_FALLBACKS": '[{"provider": "demo"}]',
            "HOLDFAST_CACHE_IDLE_TTL": "1.5",
            "HOLDFAST_AGENT_INSTRUCTIONS": "Be brief, and kind.",
        },
    )
    settings = config.settings
    assert settings.gateway.busy_mode is BusyMode.QUEUE
    assert settings.agent.toolsets == ("web", "todo")
    assert not settings.platforms["simulated"].enabled
    assert settings.platforms["simulated"].allow == ("a,b",)
    assert settings.model.api_mode is None
    assert settings.model.fallbacks[0].provider is Provider.DEMO
    assert settings.cache.idle_ttl == 1.5
    assert settings.agent.instructions == "Be brief, and kind."


def test_every_key_has_a_variable(home: Path) -> None:
    """Each scalar key shown can be set to its own value again, by the variable it names."""
    shown = list_keys(load(home, {"HOLDFAST_PLATFORMS_API_ENABLED": "true"}))
    environ = {
        key.variable: str(key.value).lower() if isinstance(key.value, bool) else str(key.value)
        for key in shown
        if key.value is not None and not isinstance(key.value, list)
    }
    assert len(environ) > 30
    config = load(home, environ)
    assert {key.key: key.value for key in list_keys(config)} == {k.key: k.value for k in shown}


def test_the_variables_of_the_test_suite_are_accepted(home: Path) -> None:
    config = load(home, {"HOLDFAST_HOME": "/x", "HOLDFAST_CRASH_AT": "sent", "HOLDFAST_SOAK": "1"})
    assert config.crash_at == "sent"


def test_env_file_quotes_comments_and_export(home: Path) -> None:
    write_files(
        home,
        '[platforms.api]\ntoken = "env:A"\n[platforms.simulated]\n'
        'base_url = "http://127.0.0.1:1"\ntoken = "env:B"\n'
        '[model]\nprovider = "openai"\napi_key = "env:C"\n',
        env=f"# a comment\n\nexport A={STRONG} # said aside\n"
        'B=\'sin#gle\'\nC="dou\\"ble\\n" # end\n',
    )
    found = load(home, {}).secrets
    assert found["platforms.api.token"] == Secret(STRONG)
    assert found["platforms.simulated.token"] == Secret("sin#gle")
    assert found["model.api_key"] == Secret('dou"ble')


def test_the_environment_beats_the_env_file_for_secrets_too(home: Path) -> None:
    write_files(home, '[platforms.api]\ntoken = "env:A"\n', env=f"A={STRONG}\n")
    config = load(home, {"A": f"{STRONG}2"})
    assert config.secret("platforms.api.token") == Secret(f"{STRONG}2")


def test_a_secret_file_is_found_from_the_home(home: Path) -> None:
    write_files(home, '[platforms.api]\ntoken = "file:keys/api"\n')
    (home / "keys").mkdir()
    (home / "keys" / "api").write_text(f"{STRONG}\n")
    (home / "keys" / "api").chmod(0o600)
    config = load(home, {})
    assert config.secret("platforms.api.token") == Secret(STRONG)
    assert config.warnings == ()


def test_a_variable_may_hold_the_secret_itself(home: Path) -> None:
    config = load(home, {"HOLDFAST_PLATFORMS_API_TOKEN": STRONG})
    assert config.secret("platforms.api.token") == Secret(STRONG)
    assert config.settings.platforms["api"].token == "env:HOLDFAST_PLATFORMS_API_TOKEN"


def test_a_missing_secret_of_a_disabled_section_is_ignored(home: Path) -> None:
    write_files(
        home,
        '[platforms.api]\nenabled = false\ntoken = "env:NOT_THERE"\n'
        '[model]\nprovider = "demo"\napi_key = "env:NOT_THERE"\n',
    )
    config = load(home, {})
    assert config.secret("platforms.api.token") is None
    assert config.secrets == {}


def test_a_custom_address_needs_no_key(home: Path) -> None:
    write_files(
        home, '[model]\nprovider = "openai"\nname = "m"\nbase_url = "http://127.0.0.1:1/v1"\n'
    )
    assert load(home, {}).settings.model.base_url == "http://127.0.0.1:1/v1"


def test_files_open_to_others_are_warned_about(home: Path) -> None:
    write_files(home, '[platforms.api]\ntoken = "file:key"\n', env="A=1\n")
    (home / "key").write_text(STRONG)
    for path, mode in ((home / ".env", 0o644), (home / "key", 0o640), (home, 0o755)):
        path.chmod(mode)
    warnings = "\n".join(load(home, {}).warnings)
    assert f"(mode 0644): chmod 600 {home / '.env'}" in warnings
    assert f"(mode 0640): chmod 600 {home / 'key'}" in warnings
    assert f"(mode 0755): chmod 700 {home}" in warnings


def test_a_secret_too_short_to_be_recognised_is_warned_about(home: Path) -> None:
    write_files(home, '[model]\nprovider = "openai"\nname = "m"\napi_key = "env:KEY"\n')
    [warning] = load(home, {"KEY": "hunter2"}).warnings
    assert "model.api_key is shorter than 8 characters" in warning
    assert "hunter2" not in warning


@pytest.mark.parametrize(
    "weak",
    ["hunter2", "correct horse battery", "12345" * 20, "a" * 200, "abcdef0123456789abcdef01"],
)
@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ('[platforms.api]\ntoken = "env:A"\n', "platforms.api.token"),
        (
            '[platforms.webhook.hooks.build]\nsecret = "env:A"\n',
            "platforms.webhook.hooks.build.secret",
        ),
    ],
)
def test_a_secret_that_lets_others_in_and_could_be_guessed_is_refused(
    home: Path, toml: str, key: str, weak: str
) -> None:
    write_files(home, toml)
    with pytest.raises(ConfigError) as refused:
        load(home, {"A": weak})
    text = str(refused.value)
    assert key in text and "128 bits" in text and "openssl rand -hex 32" in text
    assert weak not in text
    assert any("128 bits" in each for each in load(home, {"A": weak}, tolerant=True).warnings)
    for strong in (STRONG, secrets.token_hex(16), secrets.token_urlsafe(32)):
        assert load(home, {"A": strong}).secret(key) == Secret(strong)


def test_a_listener_beyond_this_machine_is_warned_about(home: Path) -> None:
    [warning] = load(home, {"HOLDFAST_GATEWAY_HOST": "0.0.0.0"}).warnings
    assert "other machines can reach the listener" in warning


def test_show_gives_references_and_origins_and_no_secret(home: Path) -> None:
    write_files(
        home,
        '[model]\nprovider = "openai"\nname = "m"\napi_key = "env:KEY"\n'
        '[[model.fallbacks]]\nprovider = "openrouter"\nname = "n"\napi_key = "file:key"\n',
    )
    (home / "key").write_text("hunter3hunter3")
    config = load(home, {"KEY": "hunter2hunter2", "HOLDFAST_GATEWAY_PORT": "0"})
    shown = {key.key: key for key in list_keys(config)}
    assert shown["model.api_key"].value == "env:KEY"
    assert shown["model.api_key"].origin == "holdfast.toml"
    assert shown["model.fallbacks[0].api_key"].value == "file:key"
    assert shown["gateway.port"].origin == "environment variable HOLDFAST_GATEWAY_PORT"
    assert shown["gateway.host"].origin == "default"
    for text in (repr(config), repr(shown), str(config.settings)):
        assert "hunter" not in text


def test_a_settings_object_with_a_literal_secret_is_masked(home: Path) -> None:
    made = Settings(platforms={"api": ApiSettings(token="hunter2")})
    config = Config(home=home, settings=made, secrets={}, warnings=(), signature="", origins={})
    assert "hunter2" not in repr(list_keys(config))


def test_the_signature_follows_settings_and_secrets(home: Path) -> None:
    write_files(home, '[platforms.api]\ntoken = "env:A"\n')
    first = load(home, {"A": f"{STRONG}one"}).signature
    assert load(home, {"A": f"{STRONG}one"}).signature == first
    assert load(home, {"A": f"{STRONG}two"}).signature != first
    assert load(home, {"A": f"{STRONG}one", "HOLDFAST_GATEWAY_PORT": "1"}).signature != first
    assert "one" not in first


def test_the_schema_knows_every_section() -> None:
    definitions = json_schema()["$defs"]
    assert definitions["Settings"]["additionalProperties"] is False
    assert definitions["GatewaySettings"]["properties"]["port"]["maximum"] == 65535


def test_a_multi_line_text_does_not_shift_line_numbers(home: Path) -> None:
    toml = '[agent]\ninstructions = """\nmax_steps = 3\n[gateway]\n"""\nmax_steps = 0\n'
    write_files(home, toml)
    with pytest.raises(ConfigError, match=r"line 6: agent\.max_steps"):
        load(home, {})

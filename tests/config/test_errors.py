"""Every error of a configuration, and its message."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.config import ConfigError, load, prepare_home, resolve_home
from holdfast.core.text.translation import use_catalogue
from holdfast.system.languages import catalogue_for

Refusal = Callable[..., str]


@pytest.fixture
def refusal(tmp_path: Path) -> Refusal:
    """The message for a holdfast.toml, an environment and a .env."""

    def refuse(toml: str = "", environ: dict[str, str] | None = None, env: str = "") -> str:
        (tmp_path / "holdfast.toml").write_text(toml)
        (tmp_path / ".env").write_text(env)
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, environ or {})
        return str(caught.value)

    return refuse


def test_an_unknown_key_names_file_line_key_and_the_nearest(
    refusal: Refusal, tmp_path: Path
) -> None:
    message = refusal('[gateway]\nhost = "localhost"\nprot = 9000\n')
    assert message.startswith(f"{tmp_path / 'holdfast.toml'}, line 3: gateway.prot is not a key")
    assert 'found:    "prot"' in message
    assert "allowed:  host, port, allowed_hosts" in message
    assert "did you mean `port`?" in message


def test_an_unknown_section_is_found_at_its_header(refusal: Refusal) -> None:
    message = refusal("\n[gatway]\nport = 1\n")
    assert "line 2: gatway is not a key" in message
    assert "did you mean `gateway`?" in message


def test_an_unknown_key_of_a_platform_is_found_in_that_platform(refusal: Refusal) -> None:
    message = refusal('[platforms.api]\nenabled = true\n[platforms.simulated]\nalow = ["me"]\n')
    assert "line 4: platforms.simulated.alow" in message
    assert "did you mean `allow`?" in message


@pytest.mark.parametrize(
    ("toml", "key", "found", "allowed"),
    [
        ('[gateway]\nport = "80"', "gateway.port", '"80"', "a whole number from 0 to 65535"),
        ("[gateway]\nport = true", "gateway.port", "true", "a whole number from 0 to 65535"),
        ("[gateway]\nport = 65536", "gateway.port", "65536", "a whole number from 0 to 65535"),
        ("[gateway]\npark_timeout = -1", "gateway.park_timeout", "-1", "a number of at least 0"),
        ("[gateway]\npark_timeout = nan", "gateway.park_timeout", "NaN", "a number of at least 0"),
        ("[gateway]\npark_timeout = inf", "gateway.park_timeout", "Infinity", "a number"),
        ("[cache]\nmax_agents = 0", "cache.max_agents", "0", "a whole number of at least 1"),
        ("[cache]\nmax_agents = 1.5", "cache.max_agents", "1.5", "a whole number of at least 1"),
        ('[gateway]\nbusy_mode = "wait"', "gateway.busy_mode", '"wait"', '"queue" or "steer"'),
        ("[gateway]\nbusy_mode = [1]", "gateway.busy_mode", "[1]", '"queue" or "steer"'),
        ('[agent]\ntoolsets = "web"', "agent.toolsets", '"web"', "a list of: a text"),
        ("[agent]\ntoolsets = [1]", "agent.toolsets[0]", "1", "a text"),
        ("[platforms.api]\nenabled = 1", "platforms.api.enabled", "1", "true or false"),
        ("gateway = 3", "gateway", "3", "a table with host, port"),
        ("platforms = 3", "platforms", "3", "tables, each with a name of its own"),
        ("[platforms]\napi = 3", "platforms.api", "3", "a table with enabled"),
        ("[agent]\ninstructions = 2020-01-01", "agent.instructions", "2020-01-01", "a text"),
    ],
)
def test_a_wrong_value_says_what_was_found_and_what_is_allowed(
    refusal: Refusal, toml: str, key: str, found: str, allowed: str
) -> None:
    message = refusal(toml)
    line = len(toml.splitlines())
    assert f"line {line}: {key} has a value that is not allowed" in message
    assert f"found:    {found}" in message or f'found:    "{found}"' in message
    assert allowed in message


def test_an_unknown_language_names_those_there_are(refusal: Refusal) -> None:
    message = refusal('[gateway]\nlanguage = "xx-YY"\n')
    assert "line 2: gateway.language is a language that Holdfast does not have" in message
    assert 'found:    "xx-YY"' in message
    assert 'allowed:  "en", ' in message and '"en-XA", or "" for English' in message


@pytest.mark.parametrize("table", ["[model]", "[[model.fallbacks]]"])
def test_a_key_for_another_machine_is_refused_over_plain_http(
    refusal: Refusal, tmp_path: Path, table: str
) -> None:
    toml = f'{table}\nprovider = "openai"\napi_key = "env:K"\nbase_url = "http://10.0.0.9/v1"\n'
    message = refusal(toml, {"K": "sk-0123456789"})
    assert "base_url would send the key to another machine without encryption" in message
    assert "line 4" in message and "allow_unencrypted = true" in message
    assert "sk-0123456789" not in message
    (tmp_path / "holdfast.toml").write_text(f"{toml}allow_unencrypted = true\n")
    load(tmp_path, {"K": "sk-0123456789"})
    (tmp_path / "holdfast.toml").write_text(toml.replace('api_key = "env:K"\n', ""))
    load(tmp_path, {})


def test_a_fallback_without_its_provider_is_found_in_its_own_table(refusal: Refusal) -> None:
    toml = '[[model.fallbacks]]\nprovider = "demo"\n\n[[model.fallbacks]]\nname = "x"\n'
    message = refusal(toml)
    assert "line 4: model.fallbacks[1].provider is missing" in message
    assert '"openai" or "anthropic"' in message


def test_bad_syntax_names_the_line(refusal: Refusal, tmp_path: Path) -> None:
    message = refusal("[gateway]\nport = = 3\n")
    assert message.startswith(f"{tmp_path / 'holdfast.toml'}, line 2: this is not TOML")


def test_a_duplicate_is_named_with_a_remedy(refusal: Refusal) -> None:
    table = refusal('[prices."gpt-4.1"]\n[gateway]\n[prices."gpt-4.1"]\n')
    assert 'line 3: this is not TOML: [prices."gpt-4.1"] is defined twice' in table
    assert 'move its keys to the first [prices."gpt-4.1"]' in table
    key = refusal("[gateway]\nport = 1\nport = 2\n")
    assert "line 3: this is not TOML: a key is defined twice" in key
    assert "remove one of the two" in key


def test_a_truncated_file_is_reported_at_its_end(refusal: Refusal) -> None:
    assert "this is not TOML" in refusal('[agent]\ninstructions = """never closed')


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_bytes(b'[agent]\ninstructions = "gr\xfc\xdfe"\n')
    with pytest.raises(ConfigError, match=r"holdfast.toml, line 2: this is not UTF-8"):
        load(tmp_path, {})


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").mkdir()
    with pytest.raises(ConfigError, match=r"holdfast.toml: it cannot be read: Is a directory"):
        load(tmp_path, {})


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("api.example.org/v1", "does not begin with http"),
        ("ftp://example.org", "does not begin with http"),
        ("http://", "names no host"),
        ("http://host:notaport/", "Port could not be cast"),
        ("http://ho st/", "contains a space"),
        ("https://host/v1?key=1", "has a query"),
    ],
)
def test_an_address_that_cannot_be_called_is_refused(refusal: Refusal, url: str, why: str) -> None:
    message = refusal(f'[model]\nprovider = "local"\nname = "m"\nbase_url = "{url}"\n')
    assert "line 4: model.base_url is not a usable address" in message
    assert why in message
    assert "allowed:  http://host:port/path" in message


@pytest.mark.parametrize("home", ["/thread", "chat/", " ", "/"])
def test_a_home_channel_that_is_not_a_chat_is_refused(refusal: Refusal, home: str) -> None:
    message = refusal(f'[platforms.simulated]\nbase_url = "http://h"\nhome = "{home}"\n')
    assert "line 3: platforms.simulated.home names no chat" in message
    assert '"CHAT/THREAD"' in message


def test_a_password_in_an_address_is_refused_and_not_repeated(refusal: Refusal) -> None:
    message = refusal('[platforms.simulated]\nbase_url = "https://me:hunter2@host/"\n')
    assert "platforms.simulated.base_url" in message
    assert "hunter2" not in message


def test_an_api_mode_that_does_not_fit_its_provider_is_refused(refusal: Refusal) -> None:
    toml = '[model]\nprovider = "openai"\nname = "m"\napi_mode = "anthropic_messages"\n'
    message = refusal(toml)
    assert 'line 4: model.api_mode does not fit provider "openai"' in message
    assert '"chat_completions" or "responses"' in message


def test_a_model_needs_a_key_and_a_fallback_needs_a_provider(refusal: Refusal) -> None:
    message = refusal('[model]\nprovider = "openai"\n')
    assert "line 1: model.api_key is empty" in message
    assert 'api_key = "env:OPENAI_API_KEY"' in message
    message = refusal('[model]\nfallbacks = [{provider = "auto"}]\n')
    assert "line 2: model.fallbacks[0].provider must name the provider of this model" in message
    message = refusal('[model]\napi_key = "env:MY_KEY"\n', {"MY_KEY": "sk-12345678"})
    assert "model.provider must name the provider of this model" in message
    assert '"anthropic"' in message


def test_an_unknown_toolset_and_an_unknown_platform_name_the_nearest(refusal: Refusal) -> None:
    message = refusal('[agent]\ntoolsets = ["web", "terminl"]\n')
    assert "agent.toolsets[1]" in message
    assert "did you mean `terminal`?" in message
    message = refusal("[platforms.simulatd]\n")
    assert "line 1: platforms.simulatd" in message
    assert "did you mean `simulated`?" in message


@pytest.mark.parametrize("host", ["http://localhost", "localhost:80", "", "a b"])
def test_a_host_is_a_name_or_an_address(refusal: Refusal, host: str) -> None:
    assert "gateway.host is not a host" in refusal(f'[gateway]\nhost = "{host}"\n')


@pytest.mark.parametrize("proxy", ["nginx", "10.0.0.0/99", "", "10.0.0.1:80"])
def test_a_proxy_is_trusted_by_its_address_and_not_by_a_name(refusal: Refusal, proxy: str) -> None:
    message = refusal(f'[gateway]\ntrusted_proxy = ["::1", "{proxy}"]\n')
    assert "gateway.trusted_proxy[1] is neither an address nor a network" in message
    assert "172.16.0.0/12" in message


def test_a_secret_written_out_is_refused_and_not_repeated(refusal: Refusal) -> None:
    message = refusal('[platforms.api]\ntoken = "hunter2hunter2"\n')
    assert "line 2: platforms.api.token is a secret itself" in message
    assert '"env:API_TOKEN"' in message
    assert "hunter2" not in message


def test_a_secret_of_the_wrong_type_is_not_repeated(refusal: Refusal) -> None:
    message = refusal("[platforms.api]\ntoken = 123456789\n")
    assert "platforms.api.token has a value that is not allowed" in message
    assert "123456789" not in message


def test_a_secret_under_a_wrong_name_is_not_repeated(refusal: Refusal) -> None:
    message = refusal('[model]\napikey = "hunter2hunter2"\n')
    assert "did you mean `api_key`?" in message
    assert "hunter2" not in message


def test_a_missing_variable_or_file_of_a_secret_names_the_key(
    refusal: Refusal, tmp_path: Path
) -> None:
    message = refusal('[platforms.api]\ntoken = "env:NOT_THERE"\n')
    assert "line 2: platforms.api.token refers to the environment variable NOT_THERE" in message
    message = refusal('[platforms.api]\ntoken = "file:secrets/gone"\n')
    assert f"refers to the file {tmp_path}/secrets/gone, which does not exist" in message
    (tmp_path / "void").write_text("\n")
    assert "which is empty" in refusal('[platforms.api]\ntoken = "file:void"\n')


def test_an_unknown_variable_names_the_nearest(refusal: Refusal) -> None:
    message = refusal(environ={"HOLDFAST_GATEWAY_PROT": "1"})
    assert message.startswith("environment variable HOLDFAST_GATEWAY_PROT: no key has this name")
    assert "did you mean `HOLDFAST_GATEWAY_PORT`?" in message
    assert "line 2, HOLDFAST_MODL_NAME" in refusal(env="A=1\nHOLDFAST_MODL_NAME=x\n")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("HOLDFAST_GATEWAY_PORT", "many", "a whole number from 0 to 65535"),
        ("HOLDFAST_GATEWAY_PORT", "70000", "a whole number from 0 to 65535"),
        ("HOLDFAST_GATEWAY_PARK_TIMEOUT", "soon", "a number of at least 0"),
        ("HOLDFAST_GATEWAY_BUSY_MODE", "wait", '"interrupt" or "queue" or "steer"'),
        ("HOLDFAST_PLATFORMS_API_ENABLED", "maybe", "true or false"),
        ("HOLDFAST_MODEL_FALLBACKS", "[", "a list of: a table"),
    ],
)
def test_a_wrong_variable_is_named_in_place_of_the_file(
    refusal: Refusal, name: str, value: str, allowed: str
) -> None:
    message = refusal(environ={name: value})
    assert message.startswith(f"environment variable {name}: ")
    assert allowed in message


@pytest.mark.parametrize("line", ["no equals sign", 'A="open', "A='a'b", "1A=2"])
def test_a_malformed_env_file_names_the_line_and_not_its_content(
    refusal: Refusal, tmp_path: Path, line: str
) -> None:
    message = refusal(env=f"# fine\n{line}\n")
    assert message.startswith(f"{tmp_path / '.env'}, line 2: ")
    assert line not in message.replace("NAME", "")


def test_a_home_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="the home is a file, not a directory"):
        prepare_home(tmp_path / "file")
    with pytest.raises(ConfigError, match="home directory cannot be created: Not a directory"):
        prepare_home(tmp_path / "file" / "home")


def test_a_home_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    home = resolve_home(None, {"HOLDFAST_HOME": str(tmp_path / "a" / "b")})
    prepare_home(home)
    assert home.stat().st_mode & 0o777 == 0o700


def test_the_option_beats_the_variable_which_beats_the_default() -> None:
    assert resolve_home("/a", {"HOLDFAST_HOME": "/b"}) == Path("/a")
    assert resolve_home(None, {"HOLDFAST_HOME": "/b"}) == Path("/b")
    assert resolve_home(None, {}) == Path.home() / ".holdfast"


def test_every_part_of_an_error_is_translated(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[gateway]\nbusy_mode = "wait"\n')
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, {})
    english = str(raised.value)
    with use_catalogue(catalogue_for("en-XA")):
        shown = raised.value.for_person()
        assert str(raised.value) == english, "logs stay English"
    values = [f"{tmp_path}/holdfast.toml", "gateway.busy_mode", '"wait"', '"interrupt"', '"queue"']
    for each in [*values, '"steer"']:
        shown = shown.replace(each, "")
    outside = re.sub("⟦[^⟦⟧]*⟧", "", re.sub("⟦[^⟦⟧]*⟧", "", shown))
    assert not re.search("[A-Za-z]", outside.replace("⟦", "").replace("⟧", "")), shown

"""The tables of platforms: accounts, the keys that a plugin declares, installed plugins."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.config import Config, ConfigError, json_schema, list_keys, load
from holdfast.config.platforms import find_plugin, is_plugin, plugin_names, shadowed_plugins
from holdfast.core.errors import ConnectRefused
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import use_catalogue
from holdfast.service.platforms import (
    account_secrets,
    credential_identities,
    enabled_accounts,
    open_platforms,
)
from holdfast.system.clock import SystemClock
from holdfast.system.languages import PseudoCatalogue
from holdfast.testing.intake import RecordingIntake

Load = Callable[..., Config]

TWO = """
[platforms.simulated]
base_url = "http://127.0.0.1:1"
token = "env:FIRST"
allow = ["ann"]

[platforms.simulated.accounts.work]
base_url = "http://127.0.0.1:2"
token = "env:SECOND"
home = "hall"
"""
SECRETS = {"FIRST": "first-secret", "SECOND": "second-secret"}


@pytest.fixture
def load_config(tmp_path: Path) -> Load:
    tmp_path.chmod(0o700)

    def make(toml: str, environ: dict[str, str] | None = None) -> Config:
        (tmp_path / "holdfast.toml").write_text(toml)
        return load(tmp_path, SECRETS | (environ or {}))

    return make


def refusal(load_config: Load, toml: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(toml)
    return str(caught.value)


def accounts(config: Config) -> list[str]:
    return [f"{name}:{account}" for name, account, _ in enabled_accounts(config)]


def test_an_account_stands_on_its_own(load_config: Load) -> None:
    config = load_config(TWO)
    assert accounts(config) == ["simulated:default", "simulated:work"]
    first = config.settings.account("simulated", "default")
    work = config.settings.account("simulated", "work")
    assert first is not None and first.allow == ("ann",)
    assert work is not None and (work.allow, work.home) == ((), "hall")
    assert config.settings.account("simulated", "nobody") is None
    assert account_secrets(config, "simulated", "default") == {"token": Secret("first-secret")}
    assert account_secrets(config, "simulated", "work") == {"token": Secret("second-secret")}


def test_a_platform_with_named_accounts_has_no_default_account(load_config: Load) -> None:
    config = load_config('[platforms.simulated.accounts.work]\nbase_url = "http://127.0.0.1:2"\n')
    assert accounts(config) == ["simulated:work"]


@pytest.mark.parametrize(
    ("toml", "values"),
    [
        ("[platforms.telegram]\n", "env:TELEGRAM_BOT_TOKEN"),
        ('[platforms.irc]\nhost = "h"\nnick = "1x"\n', "1x"),
        ('[platforms.irc]\nhost = "h"\nchannels = ["x"]\n', "'x'"),
        ('[platforms.email]\naddress = "nothing"\n', ""),
        ('[platforms.matrix]\nuser = "bot"\n', "'bot'"),
        ("[platforms.slack]\n", ""),
        ('[platforms.xmpp]\njid = "bot"\n', "'bot'"),
        ('[platforms.webhook]\nurl = "ftp://x"\n', "'ftp://x'"),
        ('[platforms.webhook.hooks.ci]\nsecret = "env:S"\ntemplate = "{"\n', "hooks.ci"),
        ("[platforms.discord]\n", ""),
        ("[platforms.webhook.hooks.ci]\n", "hooks.ci"),
        ('[platforms.webhook.hooks.ci]\nsecret = "env:S"\nplatform = "web"\n', "hooks.ci"),
    ],
)
def test_why_settings_of_a_platform_cannot_be_used_is_translated(
    load_config: Load, toml: str, values: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(toml, {"S": "s"})
    with use_catalogue(PseudoCatalogue()):
        shown = caught.value.for_person()
    (problem,) = re.findall(r"cannot be used: (.*)⟧", shown)
    assert re.fullmatch("⟦.*⟧", problem), shown
    assert values in problem


def test_an_account_can_be_switched_off_alone(load_config: Load) -> None:
    config = load_config(TWO + "enabled = false\n")
    assert accounts(config) == ["simulated:default"]
    assert "platforms.simulated.accounts.work.token" not in config.secrets


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[platforms.simulated.accounts.work]\ntokn = 1\n", "accounts.work.tokn is not a key"),
        ("[platforms.simulated.accounts.work]\ntokn = 1\n", "did you mean `token`?"),
        ("[platforms.simulated.accounts.default]\n", "cannot be the name of an account"),
        ('[platforms.simulated.accounts."a:b"]\n', "cannot be the name of an account"),
        ("[platforms.simulated.accounts.a.accounts.b]\n", "a.accounts is not a key"),
        ("[platforms.simulated]\naccounts = 3\n", "simulated.accounts has a value that is not"),
        ("[platforms.simulated.accounts]\nwork = 3\n", "accounts.work has a value that is not"),
        ('[platforms.web]\ntoken = "env:FIRST"\n', "platforms.web.token is not a key"),
        ("[platforms.simulated]\nallow = []\n", "line 1: platforms.simulated cannot be used: base"),
        ('[platforms.simulated.accounts.work]\ntoken = "abc"\n', "cannot be used: base_url"),
        ("platforms = 3\n", "platforms has a value that is not allowed"),
    ],
)
def test_a_key_that_a_platform_does_not_have_is_refused_with_its_position(
    load_config: Load, toml: str, message: str
) -> None:
    assert message in refusal(load_config, toml)


def test_a_secret_of_an_account_is_a_reference(load_config: Load) -> None:
    message = refusal(load_config, TWO.replace("env:SECOND", "hunter2hunter2"))
    assert "line 9: platforms.simulated.accounts.work.token is a secret itself" in message
    assert "hunter2" not in message


def test_variables_reach_platforms_that_the_file_does_not_name(load_config: Load) -> None:
    config = load_config("", {"HOLDFAST_PLATFORMS_SIMULATED_BASE_URL": "http://127.0.0.1:3"})
    assert accounts(config) == ["simulated:default"]


def test_variables_reach_an_account_of_the_file(load_config: Load) -> None:
    config = load_config(
        TWO, {"HOLDFAST_PLATFORMS_SIMULATED_ACCOUNTS_WORK_TOKEN": "from-a-variable"}
    )
    assert account_secrets(config, "simulated", "work") == {"token": Secret("from-a-variable")}


def test_every_key_of_every_account_is_shown_and_no_secret(load_config: Load) -> None:
    shown = {each.key: each for each in list_keys(load_config(TWO))}
    assert shown["platforms.simulated.accounts.work.token"].value == "env:SECOND"
    assert shown["platforms.simulated.accounts.work.home"].origin == "holdfast.toml"
    assert "second-secret" not in repr(shown)


def test_the_schema_has_the_keys_of_every_platform_and_of_its_accounts() -> None:
    document = json_schema()
    platforms = document["$defs"]["Settings"]["properties"]["platforms"]
    assert set(platforms["properties"]) == set(plugin_names())
    assert platforms["additionalProperties"] is False
    simulated = document["$defs"]["SimulatedSettings"]["properties"]
    assert simulated["accounts"]["additionalProperties"] == platforms["properties"]["simulated"]


PLUGIN_MODULE = """
from holdfast.core.ports.platform_plugin import PlatformPlugin
from holdfast.core.config.settings import PlatformSettings

class Settings(PlatformSettings, frozen=True, kw_only=True):
    room: str
    pass_key: str = ""

PLUGIN = PlatformPlugin(name="pigeon", settings=Settings, open=None)
"""


@pytest.fixture
def pigeon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package with a plugin; its module."""
    site = tmp_path / "site"
    about = site / "pigeon_plugin-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-plugin\nVersion: 1.0\n")
    name = f"pigeon_plugin_{tmp_path.name}"
    (about / "entry_points.txt").write_text(f"[holdfast.platforms]\npigeon = {name}:PLUGIN\n")
    module = site / f"{name}.py"
    module.write_text(PLUGIN_MODULE)
    monkeypatch.syspath_prepend(str(site))
    return module


def test_an_installed_plugin_is_found_and_its_keys_are_checked(
    load_config: Load, pigeon: Path
) -> None:
    assert is_plugin("pigeon")
    config = load_config('[platforms.pigeon]\nroom = "loft"\npass_key = "env:FIRST"\n')
    assert config.secret("platforms.pigeon.pass_key") == Secret("first-secret")
    assert "did you mean `room`?" in refusal(load_config, '[platforms.pigeon]\nrom = "loft"\n')
    assert "platforms.pigeon.room is missing" in refusal(load_config, "[platforms.pigeon]\n")


def test_a_plugin_that_does_not_load_is_reported_with_its_package_and_does_not_stop_the_start(
    load_config: Load, pigeon: Path
) -> None:
    pigeon.write_text("import nothing_of_that_name\n")
    text = '[platforms.pigeon]\nroom = "loft"\nallow = ["ann"]\n'
    config = load_config(text, {"HOLDFAST_PLATFORMS_PIGEON_PASS_KEY": "coo-coo-coo"})
    (warning,) = [each for each in config.warnings if "pigeon" in each]
    assert warning.startswith(
        "platforms.pigeon cannot be used: the plugin of the package pigeon-plugin"
    )
    assert "nothing_of_that_name" in warning
    assert config.settings.platforms["pigeon"].allow == ("ann",)
    assert "platforms.pigeon.allow" in refusal(load_config, "[platforms.pigeon]\nallow = 3\n")


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("PLUGIN = 3", "which is not a platform plugin of that name"),
        ("OTHER = 3", "has no attribute 'PLUGIN'"),
        (PLUGIN_MODULE.replace("settings=Settings", "settings=dict"), "extend no PlatformSettings"),
        (PLUGIN_MODULE, "it has no `open` function"),
        (PLUGIN_MODULE.replace("open=None", "open=lambda context: 1 / 0"), "ZeroDivisionError"),
        (PLUGIN_MODULE.replace("open=None", "open=lambda context: context"), "AttributeError"),
    ],
)
async def test_a_platform_that_cannot_be_built_has_an_account_that_says_why(
    load_config: Load, pigeon: Path, module: str, why: str
) -> None:
    pigeon.write_text(f"{module}\n")
    text = """[platforms.pigeon]
room = "loft"
[platforms.simulated]
base_url = "http://127.0.0.1:1"
"""
    config = load_config(text)
    closed, other = open_platforms(config, clock=SystemClock(), new_id=lambda prefix: prefix)
    assert (closed.name, other.name) == ("pigeon", "simulated")
    with pytest.raises(ConnectRefused, match=why) as refused:
        async with closed.connect(RecordingIntake()):
            pass
    assert "package" in str(refused.value.remedy)
    assert credential_identities(config) == {}


def test_a_name_that_two_packages_claim_is_given_to_neither(
    load_config: Load, pigeon: Path
) -> None:
    other = pigeon.parent / "dove_plugin-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: dove-plugin\nVersion: 1.0\n")
    points = (pigeon.parent / "pigeon_plugin-1.0.dist-info" / "entry_points.txt").read_text()
    (other / "entry_points.txt").write_text(points)
    (warning,) = [
        each for each in load_config("[platforms.pigeon]\n").warnings if "several" in each
    ]
    assert "dove-plugin" in warning and "pigeon-plugin" in warning
    assert (
        "pigeon" not in json_schema()["$defs"]["Settings"]["properties"]["platforms"]["properties"]
    )


def test_no_package_replaces_a_built_in_platform(pigeon: Path) -> None:
    names = pigeon.parent / "pigeon_plugin-1.0.dist-info" / "entry_points.txt"
    names.write_text(f"[holdfast.platforms]\nsimulated = {pigeon.stem}:PLUGIN\n")
    plugin = find_plugin("simulated")
    assert plugin is not None and plugin.settings.__module__.startswith("holdfast.")
    assert shadowed_plugins() == {"simulated": "pigeon-plugin"}


def test_variables_reach_an_installed_platform(load_config: Load, pigeon: Path) -> None:
    config = load_config("", {"HOLDFAST_PLATFORMS_PIGEON_ROOM": "loft"})
    assert accounts(config) == ["pigeon:default"]
    with pytest.raises(ConfigError, match="HOLDFAST_PLATFORMS_PIDGEON_ROOM: no key has this name"):
        load_config("", {"HOLDFAST_PLATFORMS_PIDGEON_ROOM": "loft"})

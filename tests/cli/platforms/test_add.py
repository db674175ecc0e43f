"""`holdfast platforms add`: asks what a plugin declares, tests it, and writes all of it or
nothing."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from tests.platforms.telegram.fake import FakeTelegram
from tests.platforms.telegram.fake_bot_api import FakeBotApi
from tests.support.command_line import Cli, Terminal

from holdfast.cli.platforms.add import AddAccountOptions, AddedAccount, add_account
from holdfast.config import load
from holdfast.config.environment import read_dotenv
from holdfast.config.platforms import BUILT_IN_PLUGINS, find_plugin
from holdfast.config.toml_edit import patch_table
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.platform_plugin import SetupQuestion

MINE = '# mine\n[gateway]\nport = 9000\n\n[platforms.telegram]  # a bot\nallow = ["1"]\n'
PIGEON = """
from holdfast.core.ports.platform_plugin import AccountIdentity, PlatformPlugin, SetupQuestion
from holdfast.core.errors import ConnectRefused
from holdfast.core.config.settings import PlatformSettings

class Settings(PlatformSettings, frozen=True, kw_only=True):
    loft: str = ""
    roof: str = ""
    birds: int = 3
    rings: tuple[str, ...] = ()
    pass_key: str = ""
    call_secret: str = ""
    spare_token: str = ""

    def __post_init__(self):
        if self.birds > 9:
            raise ValueError("birds is more than a loft holds")

async def check(context):
    if context.secrets["pass_key"].reveal() != "coo-coo-coo":
        raise ConnectRefused("the loft does not know that key", remedy="ask the keeper")
    return AccountIdentity(name=f"{context.settings.loft}/{context.account}")

PLUGIN = PlatformPlugin(
    name="pigeon", settings=Settings, open=lambda context: None, check=check,
    user_id_help="your ring", setup_guide="Build a loft first.",
    setup_questions=(
        SetupQuestion(key="loft", label="Loft"),
        SetupQuestion(key="roof", label="Roof", default="{loft}-roof"),
        SetupQuestion(key="birds", label="Birds", default="3"),
        SetupQuestion(key="rings", label="Rings", optional=True),
        SetupQuestion(key="pass_key", label="Key", help="Under the mat.", variable="PIGEON_KEY"),
        SetupQuestion(key="call_secret", label="Call", generated=True),
        SetupQuestion(key="spare_token", label="Spare", skip_if="pass_key"),
    ),
)
"""


class ScriptedPrompter:
    """Answers by the label of what is asked; where there is no answer left, presses Ctrl-C."""

    def __init__(self, answers: Mapping[str, list[str]]) -> None:
        self._answers = {label: list(each) for label, each in answers.items()}
        self.asked: list[tuple[str, str, bool]] = []

    def ask(self, question: SetupQuestion, *, default: str, hidden: bool) -> str:
        self.asked.append((question.label, default, hidden))
        if not self._answers.get(question.label):
            raise click.Abort
        return self._answers[question.label].pop(0) or default

    def confirm(self, question: str, *, default: bool = True) -> bool:
        return default


@pytest.fixture
def pigeon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, with a package that has a plugin installed."""
    name = f"pigeon_setup_{tmp_path.name}"
    about = tmp_path / "site" / "pigeon_setup-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-setup\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[holdfast.platforms]\npigeon = {name}:PLUGIN\n")
    (tmp_path / "site" / f"{name}.py").write_text(PIGEON)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


def add_by_options(home: Path, **more: Any) -> AddedAccount:
    """Add an account by options alone, with the key in the environment."""
    options = {"platform": "pigeon", "account": "default", "settings": {"loft": "north"}, **more}
    return add_account(
        home, AddAccountOptions(**options), prompter=None, environ={"PIGEON_KEY": "coo-coo-coo"}
    )


def files(home: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in home.iterdir()}


def test_the_fields_that_an_installed_plugin_declares_are_asked_for(pigeon: Path) -> None:
    ann = ScriptedPrompter(
        {
            "Loft": ["north"],
            "Roof": [""],
            "Birds": ["many", "10", "4"],
            "Rings": ["a, b"],
            "Key": ["coo-coo-coo"],
            "Call": [""],
            "Your user id there": ["ann"],
        }
    )
    options = AddAccountOptions(platform="pigeon", account="work", settings={})
    with pytest.raises(HoldfastError, match="more than a loft holds"):
        add_account(pigeon, options, prompter=ann, environ={})
    assert files(pigeon) == {}
    ann = ScriptedPrompter(
        {
            "Loft": ["north"],
            "Roof": [""],
            "Birds": ["many", "4"],
            "Rings": ["a, b"],
            "Key": ["coo-coo-coo"],
            "Call": [""],
            "Your user id there": ["ann"],
        }
    )
    done = add_account(pigeon, options, prompter=ann, environ={})
    assert ("Roof", "north-roof", False) in ann.asked and ("Key", "", True) in ann.asked
    assert "Spare" not in [label for label, _, _ in ann.asked]
    assert done.identity is not None and done.identity.name == "north/work"
    config = load(pigeon, {})
    account: Any = config.settings.account("pigeon", "work")
    assert (account.loft, account.roof, account.birds) == ("north", "north-roof", 4)
    assert (account.rings, account.allow, account.operators) == (("a", "b"), ("ann",), ("ann",))
    secrets = read_dotenv(pigeon / ".env").values
    assert secrets["PIGEON_KEY_WORK"] == "coo-coo-coo"
    assert len(secrets["PIGEON_CALL_SECRET_WORK"]) > 30  # it was generated
    assert (pigeon / ".env").stat().st_mode & 0o777 == 0o600
    assert "coo-coo-coo" not in (pigeon / "holdfast.toml").read_text()


def test_a_second_run_changes_nothing_and_an_account_beside_it_has_its_own_secret(
    pigeon: Path,
) -> None:
    assert add_by_options(pigeon, owners=("ann",)).changed
    before = files(pigeon)
    assert "birds" not in before["holdfast.toml"]  # three is what holds anyway
    assert not add_by_options(pigeon, owners=("ann",)).changed
    assert files(pigeon) == before
    assert add_by_options(pigeon, owners=("bob",), settings={"birds": "5"}).changed
    account: Any = load(pigeon, {}).settings.account("pigeon", "default")
    assert (account.loft, account.birds, account.allow) == ("north", 5, ("ann", "bob"))
    spare = {"loft": "south", "pass_key": "env:PIGEON_KEY"}
    add_by_options(pigeon, account="work", settings=spare)
    assert load(pigeon, {}).secret("platforms.pigeon.accounts.work.pass_key") is not None
    assert before["holdfast.toml"].splitlines()[1] in files(pigeon)["holdfast.toml"]


def test_a_wrong_or_aborted_setup_leaves_the_home_unchanged(pigeon: Path) -> None:
    (pigeon / "holdfast.toml").write_text(MINE.replace("platforms.telegram", "platforms.web"))
    (pigeon / ".env").write_text("OTHER=1\n")
    before = files(pigeon)
    options = AddAccountOptions(platform="pigeon", account="default", settings={"loft": "north"})

    def refused(*, environ: dict[str, str] | None = None, **more: Any) -> str:
        values = {"account": "default", "settings": {"loft": "north"}, **more}
        changed = AddAccountOptions(platform="pigeon", **values)
        with pytest.raises((HoldfastError, click.ClickException)) as caught:
            add_account(pigeon, changed, prompter=None, environ=environ or {})
        assert files(pigeon) == before
        return str(caught.value)

    assert "ask the keeper" in refused(environ={"PIGEON_KEY": "wrong-key"})
    assert "--set pass_key=env:PIGEON_KEY" in refused()
    assert "other users can read a secret" in refused(
        settings={"loft": "n", "pass_key": "coo-coo-coo"}
    )
    assert "NOWHERE is set neither" in refused(secret_from="NOWHERE")
    assert "NOWHERE is set neither" in refused(
        settings={"loft": "n", "spare_token": "env:NOWHERE"}, environ={"PIGEON_KEY": "coo-coo-coo"}
    )
    assert "letters, digits" in refused(account="my work")
    assert "a whole number" in refused(settings={"loft": "n", "birds": "x"})
    assert "did you mean `loft`?" in refused(
        settings={"loft": "n", "lift": "x"}, environ={"PIGEON_KEY": "coo-coo-coo"}
    )
    with pytest.raises(click.Abort):
        add_account(pigeon, options, prompter=ScriptedPrompter({"Roof": [""]}), environ={})
    assert files(pigeon) == before
    (pigeon / "holdfast.toml").write_text('[platforms.pigeon]\npass_key = "written-out"\n')
    bob = ScriptedPrompter({"Loft": ["n"], "Roof": [""], "Birds": [""], "Rings": [""]})
    with pytest.raises(click.Abort):
        add_account(
            pigeon,
            AddAccountOptions(platform="pigeon", account="default", settings={}),
            prompter=bob,
            environ={},
        )
    assert bob.asked[-1] == ("Key", "", True)
    with pytest.raises(HoldfastError, match="Did you mean pigeon"):
        add_account(
            pigeon,
            AddAccountOptions(platform="pidgeon", account="default", settings={}),
            prompter=None,
            environ={},
        )


def test_both_files_are_restored_if_no_gateway_could_start_with_them(
    pigeon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pigeon / ".env").write_text("OTHER=1\n")
    (pigeon / ".env").chmod(0o640)
    monkeypatch.setenv("HOLDFAST_PLATFORMS_PIGEON_BIRDS", "11")
    with pytest.raises(HoldfastError, match="more than a loft holds"):
        add_by_options(pigeon)
    assert files(pigeon) == {".env": "OTHER=1\n"}
    assert (pigeon / ".env").stat().st_mode & 0o777 == 0o640
    monkeypatch.delenv("HOLDFAST_PLATFORMS_PIGEON_BIRDS")
    assert add_by_options(pigeon).changed


@pytest.mark.parametrize("name", BUILT_IN_PLUGINS)
def test_every_setup_question_of_a_platform_is_about_one_of_its_keys(name: str) -> None:
    plugin = find_plugin(name)
    assert plugin is not None
    keys = {question.key.partition(".")[0] for question in plugin.setup_questions}
    assert keys <= set(plugin.settings.__struct_fields__)
    earlier = [question.key for question in plugin.setup_questions]
    assert all(q.skip_if in ("", *earlier[:n]) for n, q in enumerate(plugin.setup_questions))
    assert all(q.secret or not (q.generated or q.variable) for q in plugin.setup_questions)


async def test_a_token_that_telegram_accepts_is_saved_with_the_name_of_its_bot(
    cli: Cli, tmp_path: Path
) -> None:
    vendor, home = FakeTelegram(), tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text(MINE)
    async with FakeBotApi(vendor).serving() as url:
        words = ("platforms", "add", "telegram", "--key-from-env", "BOT", "--base-url", url)
        wrong = await asyncio.to_thread(cli, *words, BOT="1:wrong")
        assert (home / "holdfast.toml").read_text() == MINE
        done = await asyncio.to_thread(cli, *words, BOT=vendor.token)
    assert wrong.returncode != 0
    assert "nothing was written" in wrong.stderr
    assert done.returncode == 0, done.stderr
    assert "https://t.me/holdfast_bot" in done.stdout
    assert vendor.token not in done.stdout + done.stderr + wrong.stderr
    config = load(home, {})
    bot = config.settings.platforms["telegram"]
    assert (bot.allow, config.settings.gateway.port) == (("1",), 9000)
    assert config.secrets["platforms.telegram.token"].reveal() == vendor.token
    assert (home / ".env").stat().st_mode & 0o777 == 0o600


def test_a_nested_table_is_edited_in_place() -> None:
    patched = patch_table(MINE, "platforms.telegram", {"token": "env:BOT", "allow": ["1", "2"]})
    assert patched == MINE.replace('["1"]', '["1", "2"]') + 'token = "env:BOT"\n'
    assert patch_table("", "platforms.telegram", {"token": "env:BOT", "menu": False}) == (
        '[platforms.telegram]\ntoken = "env:BOT"\nmenu = false\n'
    )


@pytest.mark.parametrize("password", ["", "correct-horse"])
def test_a_mailbox_asks_for_a_password_or_a_token_command(tmp_path: Path, password: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    ann = ScriptedPrompter(
        {
            "The address of the mailbox": ["bot@example.org"],
            "Its password": [password],
            "The URL that issues tokens": ["https://example.org/token"],
            "The id of the app": ["app"],
            "The secret of the app": [""],
            "The refresh token": ["r0"],
            "The scope of tokens": [""],
            "The IMAP server": ["imap.example.org"],
            "The SMTP server": ["smtp.example.org"],
            "The server that checks senders": ["mx.example.org"],
            "Your user id there": ["ann@example.org"],
        }
    )
    add_account(
        home,
        AddAccountOptions(platform="email", account="default", settings={}, test=False),
        prompter=ann,
        environ={},
    )
    account: Any = load(home, {}).settings.account("email", "default")
    if password:
        assert (account.password, account.token_url) == ("env:EMAIL_PASSWORD", "")
        assert "The refresh token" not in [label for label, _, _ in ann.asked]
    else:
        assert (account.password, account.client_id) == ("", "app")
        assert account.refresh_token == "env:EMAIL_REFRESH_TOKEN"
        assert read_dotenv(home / ".env").values == {"EMAIL_REFRESH_TOKEN": "r0"}


def test_the_explanation_of_a_platform_is_wrapped_between_words(
    open_terminal: Callable[..., Terminal],
) -> None:
    terminal = open_terminal("platforms", "add", "telegram")
    lines = terminal.wait_for_text("The token of the bot").split("\n")
    assert "https://t.me/BotFather" in " ".join(lines)
    assert all(len(line) <= 100 for line in lines)

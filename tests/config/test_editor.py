"""Setting keys of holdfast.toml: each change is checked first and written atomically."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import ConfigError, json_schema, load
from holdfast.config.editor import (
    ConfigEdit,
    FileChangedMeanwhile,
    changed_keys,
    edit_keys,
    replace_file,
)
from holdfast.config.keys import find_key, key_names, parse_word
from holdfast.core.config.changes import ChangeEffect, change_effect

MINE = """\
# mine
[gateway]
port = 9000  # not 8787

[prices."gpt-4.1"]
input = 2
output = 8
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    (tmp_path / "holdfast.toml").write_text(MINE)
    return tmp_path


def change(home: Path, values: dict[str, Any], *unset: str, **environ: str) -> ConfigEdit:
    def check(text: str) -> Any:
        return load(home, environ, text=text)

    return edit_keys(home, values=values, unset=unset, check=check)


def test_only_the_named_keys_change_and_each_reports_its_old_and_new_value(home: Path) -> None:
    (home / "holdfast.toml").chmod(0o640)
    done = change(home, {"gateway.port": 80, "model.provider": "demo"})
    assert [(each.key, each.old, each.new, each.effect) for each in done.changes] == [
        ("gateway.port", 9000, 80, ChangeEffect.RESTART),
        ("model.provider", "auto", "demo", ChangeEffect.NEXT_TURN),
    ]
    assert (home / "holdfast.toml").read_text() == MINE  # not before it is told to
    done.write()
    said = (home / "holdfast.toml").read_text()
    assert said == MINE.replace("9000", "80") + '\n[model]\nprovider = "demo"\n'
    assert (home / "holdfast.toml").stat().st_mode & 0o777 == 0o640
    done.revert()
    assert (home / "holdfast.toml").read_text() == MINE


def test_a_table_is_set_and_removed_as_a_whole(home: Path) -> None:
    done = change(
        home, {"prices.gpt-4.1": {"input": 3, "output": 8.5}, "prices.x": {"input": 1, "output": 2}}
    )
    assert {each.key: each.new for each in done.changes} == {
        "prices.gpt-4.1.input": 3,
        "prices.gpt-4.1.output": 8.5,
        "prices.x.input": 1,
        "prices.x.output": 2,
    }
    gone = change(home, {}, "prices.gpt-4.1")
    assert gone.config.settings.prices == {}
    assert [(each.key, each.new) for each in gone.changes] == [
        ("prices.gpt-4.1.input", None),
        ("prices.gpt-4.1.output", None),
    ]


@pytest.mark.parametrize(
    ("values", "unset", "message"),
    [
        (
            {"gateway.prot": 1},
            (),
            r"gateway.prot: there is no key of this name.*\n.*did you mean `gateway.port`",
        ),
        ({"gateway.port": 70000}, (), r"holdfast.toml, line 3: gateway.port has a value"),
        (
            {"platforms.telegram.token": "sk-12345678"},
            (),
            r"a secret itself(?s:.)*fix: .*env:",
        ),
        (
            {"model.api_key": "env:NOT_THERE", "model.provider": "openai"},
            (),
            "NOT_THERE, which is not set",
        ),
        ({"model": 1}, (), "is a table, not a key"),
        ({"prices.x": {}}, (), "the table is empty"),
        ({"gateway.port": None}, (), "unset the key"),
        ({}, ("prices.gpt-4.1.input",), "prices.gpt-4.1.input is missing"),
        ({"model.fallbacks[0].name": "x"}, (), "a list is set as a whole"),
    ],
)
def test_an_invalid_change_is_refused_with_its_position_and_nothing_is_written(
    home: Path, values: dict[str, Any], unset: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        change(home, values, *unset)
    assert "sk-12345678" not in str(refused.value)
    assert (home / "holdfast.toml").read_text() == MINE


def test_a_key_that_a_variable_sets_says_that_the_file_does_not_decide(home: Path) -> None:
    done = change(home, {"gateway.port": 80}, HOLDFAST_GATEWAY_PORT="7000")
    [port] = done.changes
    assert (port.old, port.new) == (9000, 80)
    assert port.overridden_by == "environment variable HOLDFAST_GATEWAY_PORT"
    assert done.config.settings.gateway.port == 7000


def test_an_invalid_file_can_be_repaired_key_by_key(home: Path) -> None:
    (home / "holdfast.toml").write_text(MINE.replace("9000", '"wrong"'))
    done = change(home, {"gateway.port": 80})
    assert [(each.old, each.new) for each in done.changes] == [("wrong", 80)]


def test_a_secret_that_only_the_service_has_is_a_warning_where_that_is_asked_for(
    home: Path,
) -> None:
    values = {"model.provider": "openai", "model.api_key": "env:NOT_THERE"}
    tolerant = partial(load, home, {}, tolerant=True)
    done = edit_keys(home, values=values, check=lambda text: tolerant(text=text))
    assert any("NOT_THERE, which is not set" in each for each in done.config.warnings)


def test_a_whole_text_replaces_the_file_unless_it_changed_meanwhile(
    home: Path,
) -> None:
    done = replace_file(home, "[gateway]\nport = 1\n", check=lambda text: load(home, {}, text=text))
    assert changed_keys(MINE, done.after) == tuple(each.key for each in done.changes)
    (home / "holdfast.toml").write_text("# somebody else's\n")
    with pytest.raises(FileChangedMeanwhile, match="changed elsewhere"):
        done.write()
    assert (home / "holdfast.toml").read_text() == "# somebody else's\n"


@pytest.mark.parametrize(
    ("name", "word", "value"),
    [
        ("gateway.port", "80", 80),
        ("model.name", "8787", "8787"),
        ("model.name", '"quoted"', "quoted"),
        ("model.name", "two\nx = 1", "two\nx = 1"),
        ("auxiliary.titles", "off", False),
        ("agent.toolsets", "terminal, files", ["terminal", "files"]),
        ("agent.toolsets", '["web"]', ["web"]),
        ('prices."gpt-4.1".input', "1.5", 1.5),
        ("platforms.irc.locked.#ops.key", "env:OPS", "env:OPS"),
        ("model.fallbacks", '[{ provider = "demo" }]', [{"provider": "demo"}]),
    ],
)
def test_values_are_toml_or_plain_words(name: str, word: str, value: object) -> None:
    assert parse_word(find_key(name), word) == value


def test_an_invalid_value_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(ConfigError, match=r'allowed: *"interrupt" or "queue" or "steer"'):
        parse_word(find_key("gateway.busy_mode"), "sometimes")
    with pytest.raises(ConfigError, match="not UTF-8"):
        parse_word(find_key("model.name"), "\udcff")


def test_the_schema_says_for_each_key_when_a_change_takes_effect() -> None:
    parts = json_schema()["$defs"]
    assert parts["GatewaySettings"]["properties"]["port"]["x-effect"] == ChangeEffect.RESTART
    assert parts["ModelSettings"]["properties"]["name"]["x-effect"] == ChangeEffect.NEXT_TURN
    assert parts["TelegramSettings"]["properties"]["token"]["x-effect"] == ChangeEffect.ACCOUNT
    for key in key_names():
        section, _, name = key.rpartition(".")
        if section in parts["Settings"]["properties"]:
            table = parts["Settings"]["properties"][section]["$ref"].rpartition("/")[2]
            assert parts[table]["properties"][name]["x-effect"] == change_effect(key)


def test_every_key_that_can_be_completed_can_be_found() -> None:
    names = key_names()
    assert {"gateway.port", "agent.toolsets", "platforms.telegram.token"} <= set(names)
    assert [find_key(name).name for name in names] == names

"""docs/configuration.md and the example file have every key with its default."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect
from tests.support.doc_pages import REPO, Pages

from holdfast.config import ConfigError, load
from holdfast.config.platforms import BUILT_IN_PLUGINS, find_plugin
from holdfast.config.rules import KEY_VARIABLES
from holdfast.config.validation import unwrap_optional
from holdfast.core.config.changes import ChangeEffect, change_effect
from holdfast.core.config.settings import TOOLSETS, PlatformSettings, Settings


def keys(node: inspect.Type, path: str = "") -> Iterator[tuple[str, str]]:
    """Every key as the page names it, with its default as the page writes it."""
    assert isinstance(node, inspect.StructType)
    for field in node.fields:
        name = f"{path}.{field.name}" if path else field.name
        kind, _ = unwrap_optional(field.type)
        if isinstance(kind, inspect.StructType):
            yield from keys(kind, name)
        elif isinstance(kind, inspect.DictType):
            if field.name != "accounts":  # those have the keys of their platform once more
                yield from keys(kind.value_type, f"{name}.NAME")
        else:
            yield name, default_cell(field)
            if isinstance(kind, inspect.VarTupleType) and isinstance(
                kind.item_type, inspect.StructType
            ):
                yield from keys(kind.item_type, f"{name}[]")


def default_cell(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value = field.default
    return "unset" if value is None else f"`{msgspec.json.encode(value).decode()}`"


def normalise(cell: str) -> str:
    return cell.replace('", "', '","')


def platform_keys() -> Iterator[tuple[str, str]]:
    """The keys that a platform adds to those of every platform."""
    common = dict(keys(inspect.type_info(PlatformSettings)))
    for name in BUILT_IN_PLUGINS:
        plugin = find_plugin(name)
        assert plugin is not None
        for key, default in keys(inspect.type_info(plugin.settings)):
            if key not in common:
                yield f"platforms.{name}.{key}", default


KEYS = {**dict(keys(inspect.type_info(Settings))), **dict(platform_keys())}


def test_the_page_has_every_key_with_its_default_and_no_other(page: Pages) -> None:
    rows = page("docs/configuration.md").named()
    documented = {name: normalise(row[1]) for name, row in rows.items() if "." in name}
    assert documented == KEYS


def test_the_page_says_what_each_key_is_for(page: Pages) -> None:
    rows = page("docs/configuration.md").named()
    assert [name for name in KEYS if len(rows[name]) != 4 or len(rows[name][3]) < 10] == []


def test_the_page_names_every_key_that_needs_a_restart(page: Pages) -> None:
    """Whole sections as such, and no key that does not."""
    [row] = [
        line for line in page("docs/configuration.md").text.splitlines() if "(`restart`)" in line
    ]
    named = set(re.findall(r"`([\w.]+)`", row.partition("(`restart`)")[0]))
    known = {each for key in KEYS for each in (key, key.partition(".")[0])}
    assert named <= known | {f"platforms.{name}.enabled" for name in BUILT_IN_PLUGINS}
    served_here = {f"platforms.{plugin}.enabled" for plugin in ("api", "web")}
    needing = {key for key in {*KEYS, *served_here} if change_effect(key) is ChangeEffect.RESTART}
    assert {key for key in needing if not {key, key.partition(".")[0]} & named} == set()
    assert [
        key for key in KEYS if {key, key.partition(".")[0]} & named and key not in needing
    ] == []


def test_the_files_on_the_page_and_in_the_readme_load(page: Pages, tmp_path: Path) -> None:
    environ = dict.fromkeys(KEY_VARIABLES.values(), "sk-0123456789")
    blocks = [*page("docs/configuration.md").blocks, *page("README.md").blocks]
    files = [block.text for block in blocks if block.language == "toml"]
    assert len(files) >= 2
    for number, text in enumerate(files):
        home = tmp_path / str(number)
        home.mkdir(mode=0o700)
        (home / "holdfast.toml").write_text(text)
        load(home, environ)


def test_the_page_names_every_platform_and_toolset(page: Pages) -> None:
    text = page("docs/configuration.md").text
    assert [name for name in BUILT_IN_PLUGINS if f"`{name}`" not in text] == []
    assert [name for name in TOOLSETS if f'"{name}"' not in text] == []


def example(home: Path) -> str:
    text = (REPO / "examples" / "holdfast.toml").read_text()
    (home / "holdfast.toml").write_text(text)
    return text


def test_the_example_file_holds_every_default(tmp_path: Path) -> None:
    example(tmp_path)
    given = load(tmp_path, {}).settings
    platforms = {
        name: plugin.settings(enabled=name in ("api", "web"))
        for name in BUILT_IN_PLUGINS
        if (plugin := find_plugin(name)) is not None
    }
    assert given == Settings(platforms=platforms)


def test_the_example_file_names_every_key(tmp_path: Path) -> None:
    text, section, named = example(tmp_path), "", set()
    for line in text.splitlines():
        if found := re.match(r"(?:# )?\[([\w.]+(?:\"[^\"]+\")?)\]", line):
            section = re.sub(r"\.chats\.\w+", ".chats.NAME", found[1])
            section = re.sub(r"^prices\..+", "prices.NAME", section)
            section = re.sub(r"^injection\.people\..+", "injection.people.NAME", section)
        elif found := re.match(r"(?:# )?(\w+) = ", line):
            named.add(f"{section}.{found[1]}")
            named.add(re.sub(r"^platforms\.\w+", "platforms.NAME", f"{section}.{found[1]}"))
    assert {key for key in KEYS if "[]" not in key} - named == set()


def test_the_error_on_the_page_is_the_one_a_reader_will_see(page: Pages, tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("[gateway]\nprot = 9000\n")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, {})
    shown = str(refused.value).replace(str(tmp_path), "/home/ann/.holdfast")
    assert shown in page("docs/configuration.md").text

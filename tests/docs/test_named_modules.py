"""The files and modules that docstrings and pages name exist."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.support.doc_pages import REPO, Pages

SOURCE = REPO / "src" / "holdfast"
CODE_FOLDERS = ("src", "tests", "bench", "scripts", "examples")
PAGES = sorted(
    path.relative_to(REPO).as_posix()
    for folder in (".", "bench", "examples", "docs", "docs/spec", "docs/decisions")
    for path in (REPO / folder).glob("*.md")
)
FILE = re.compile(r"`([\w./-]+\.py)`")
DOTTED = re.compile(r"`(holdfast(?:\.\w+)+)(?:\(\))?`")
PLACEHOLDER = re.compile(r"\b[A-Z]+\b")  # as in `platforms/NAME/plugin.py`


def missing_names(text: str, folder: Path) -> set[str]:
    """What a text in that folder names in backquotes and does not exist."""
    files = {name for name in FILE.findall(text) if not _is_file(name, folder)}
    return files | {name for name in DOTTED.findall(text) if not _is_known(name)}


def _is_file(name: str, folder: Path) -> bool:
    """A file name alone may be of any folder: the text says which, or it is beside it."""
    if "/" not in name:
        return name in _file_names()
    name = PLACEHOLDER.sub("*", name)
    return any(list(base.glob(name)) for base in (REPO, SOURCE, folder))


def _is_known(name: str) -> bool:
    """A module or something in it; or a name with a dot that the source has as a string, such as
    `holdfast.toml`."""
    return _is_module(name) or _is_module(name.rpartition(".")[0], name) or name in _strings()


def _is_module(module: str, attribute: str = "") -> bool:
    parts = module.split(".")[1:]
    if not parts and attribute:
        return False
    path = SOURCE.joinpath(*parts)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not attribute or not file.is_file():
        return file.is_file()
    name = attribute.rpartition(".")[2]
    return hasattr(importlib.import_module(module), name)


@cache
def _file_names() -> frozenset[str]:
    return frozenset(path.name for folder in CODE_FOLDERS for path in (REPO / folder).rglob("*.py"))


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def _strings() -> frozenset[str]:
    nodes = (node for tree in _trees().values() for node in ast.walk(tree))
    return frozenset(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _docstrings(tree: ast.Module) -> Iterator[str]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and (text := ast.get_docstring(node)) is not None:
            yield text


@pytest.mark.parametrize("path", PAGES)
def test_the_files_and_modules_that_a_page_names_exist(path: str, page: Pages) -> None:
    assert missing_names(page(path).text, (REPO / path).parent) == set()


def test_the_files_and_modules_that_docstrings_name_exist() -> None:
    found = {
        path.relative_to(REPO).as_posix(): missing
        for path, tree in _trees().items()
        for text in _docstrings(tree)
        if (missing := missing_names(text, path.parent))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("gateway/app.py", False),
        ("src/holdfast/gateway/app.py", False),
        ("docs/test_named_modules.py", True),
        ("test_named_modules.py", False),
        ("accounts/internal_platforms.py", True),
        ("platforms/NAME/plugin.py", False),
        ("platforms/NAME/no_such_file.py", True),
        ("holdfast.gateway.app", False),
        ("holdfast.gateway", False),
        ("holdfast.gateway.app.Gateway", False),
        ("holdfast.gateway.app.Gatehouse", True),
        ("holdfast.gateway.house", True),
        ("holdfast.toml", False),
        ("holdfast.inbox.id", False),
        ("holdfast.inbox.name", True),
    ],
)
def test_the_check_knows_what_exists(name: str, missing: bool) -> None:
    assert missing_names(f"See `{name}`.", SOURCE) == ({name} if missing else set())

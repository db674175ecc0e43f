"""docs/spec: what a test or a mutant cites is promised there, and what is promised is proven."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

ROOT = next(each for each in Path(__file__).parents if (each / "pyproject.toml").is_file())
SPEC = ROOT / "docs" / "spec"
PAGES = sorted(SPEC.glob("*.md"))

DEFINED = re.compile(r"^- \*\*([A-Z]\d{1,2})\*\* ", re.MULTILINE)
# One id, or the first and the last of a range: D1-D4, also with a dash or dots, or as D1-4.
CITED = re.compile(r"(?<![\w-])([A-Z])(\d{1,2})(?:[-\u2013\u2026](?:\1)?(\d{1,2}))?(?![\w-])")
CODE = re.compile(r"`[^`]*`")
LAW_DEFINED = re.compile(r"^- \*\*Law (\d{1,2})\*\* ", re.MULTILINE)
LAW_CITED = re.compile(r"\blaws? (\d{1,2})((?:(?:, | and |, and | or )\d{1,2}\b)*)", re.IGNORECASE)
BREAKS = re.compile(r"^Breaks:(.*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!http|#)([^)#]+)")


class Docstring(msgspec.Struct, frozen=True):
    where: str
    cites: frozenset[str]
    of_test: bool


def defined() -> Counter[str]:
    """The promises, and how often each is made."""
    return Counter(promise for page in PAGES for promise in DEFINED.findall(page.read_text()))


def cited(text: str) -> frozenset[str]:
    """The ids in a docstring or a header, wherever they stand in it.

    Whatever looks like an id is one, so that none is overlooked. A name that only looks like one
    (of a bucket, of a channel) stands in code font, which is not read.
    """
    return frozenset(
        f"{letter}{number}"
        for letter, first, last in CITED.findall(CODE.sub("", text))
        for number in range(int(first), int(last or first) + 1)
    )


def docstrings(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, file: str
) -> Iterator[Docstring]:
    name = "" if isinstance(node, ast.Module) else node.name
    text = ast.get_docstring(node) or ""
    yield Docstring(f"{file} {name}".strip(), cited(text), name.startswith("test_"))
    for part in node.body:
        if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from docstrings(part, file)


@pytest.fixture(scope="module")
def all_docstrings() -> list[Docstring]:
    """Every docstring of the tests; and of the source, which cites what it keeps."""
    files = (file for folder in ("tests", "src") for file in sorted((ROOT / folder).rglob("*.py")))
    return [
        docstring
        for file in files
        if CITED.search(source := file.read_text())
        for docstring in docstrings(ast.parse(source), str(file.relative_to(ROOT)))
    ]


def test_every_cited_id_is_defined(all_docstrings: list[Docstring]) -> None:
    promises = defined()
    assert [
        (each.where, one) for each in all_docstrings for one in each.cites if one not in promises
    ] == []


def test_every_id_that_a_mutant_breaks_is_defined() -> None:
    """A header may name something else than a promise of these pages."""
    patches = sorted((ROOT / "tests").rglob("*.patch"))
    headers = {patch.name: BREAKS.findall(patch.read_text()) for patch in patches}
    assert [name for name, lines in headers.items() if len(lines) != 1] == []
    broken = [(name, one) for name, lines in headers.items() for one in cited(lines[0])]
    promises = defined()
    assert broken
    assert [(name, one) for name, one in broken if one not in promises] == []


def test_every_promise_is_cited_by_a_test(all_docstrings: list[Docstring]) -> None:
    proven = {one for each in all_docstrings if each.of_test for one in each.cites}
    assert [promise for promise in defined() if promise not in proven] == []


def test_every_promise_is_defined_once() -> None:
    assert [promise for promise, times in defined().items() if times > 1] == []


def cited_laws(text: str) -> frozenset[int]:
    return frozenset(
        int(number)
        for first, others in LAW_CITED.findall(text)
        for number in (first, *re.findall(r"\d+", others))
    )


def test_every_law_that_is_cited_is_written_down() -> None:
    laws = [int(number) for number in LAW_DEFINED.findall((SPEC / "laws.md").read_text())]
    assert laws == list(range(1, len(laws) + 1))
    files = [
        *(file for folder in ("src", "tests") for file in (ROOT / folder).rglob("*.py")),
        *(ROOT / "tests").rglob("*.patch"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
    ]
    cited_in = {file: cited_laws(file.read_text()) for file in files}
    assert any(cited_in.values())
    unknown = {str(file): sorted(found - set(laws)) for file, found in cited_in.items()}
    assert {file: numbers for file, numbers in unknown.items() if numbers} == {}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("Law 12, G3: default deny; law 10.", {10, 12}), ("Laws 4 and 5", {4, 5}), ("lawn 3", set())],
)
def test_each_way_to_cite_a_law_is_read(text: str, numbers: set[int]) -> None:
    assert cited_laws(text) == numbers


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("A7: swept.", "A7"),
        ("H3, F7: given up.", "H3 F7"),
        ("F9.", "F9"),
        ("I2; a channel that cannot be joined.", "I2"),
        ("I4 with a real gateway killed: one delivery.", "I4"),
        ("C1: by name. C7: whole. E4: nothing\nis left; E3: stopped.", "C1 C7 E4 E3"),
        ("Law 12, G3: default deny; law 10.", "G3"),
        ("Attachments out, I2: a file.", "I2"),
        ("The same prompt (A4); from then on their own.", "A4"),
        ("D1\u2013D3, H1-H2, A11…13: all of them.", "D1 D2 D3 H1 H2 A11 A12 A13"),
        ("The bucket `A7`, UTF-8, E2E, IPv4, X-A1, H264.", ""),
    ],
)
def test_every_citation_form_is_recognised(text: str, ids: str) -> None:
    assert cited(text) == set(ids.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(CODE.sub("", page.read_text()))
    assert [target for target in targets if not (SPEC / target).exists()] == []

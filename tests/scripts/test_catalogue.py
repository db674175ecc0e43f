"""The texts of the source can be translated, and the translations can be filled in."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from holdfast.cli.common.language import split_help
from holdfast.cli.root import cli as root

SCRIPT = Path(__file__).parents[2] / "scripts" / "catalogue.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("catalogue_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


catalogue = load_script()
IMPORT = "from holdfast.core.text.translation import N_, _, _n\n"


def extracted(root: Path, **files: str) -> tuple[list[tuple[str, str | None]], list[str]]:
    """The texts and problems of files: `cli__a` is holdfast/cli/a.py, `page__a` a script."""
    for name, content in files.items():
        folder, _, stem = name.rpartition("__")
        page = folder == "page"
        path = (
            root
            / (catalogue.PAGE if page else f"holdfast/{folder}")
            / (stem + (".js" if page else ".py"))
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if page else IMPORT + content)
    found = catalogue.extract(root)
    texts = [(text.singular, text.plural) for text in found.texts]
    return texts, [problem.text for problem in found.problems]


def test_every_text_of_the_source_can_be_translated() -> None:
    problems = catalogue.extract().problems
    assert not problems, "\n".join(map(str, problems))


@pytest.mark.skipif(not catalogue.CURRENT_IS_CHECKED, reason="texts are being marked")
def test_catalogues_are_current() -> None:
    outdated = catalogue.outdated(catalogue.extract().texts)
    assert not outdated, f"run `make catalogue` and commit what it changes: {outdated}"


def test_a_remedy_is_a_text_with_the_values_of_its_error(tmp_path: Path) -> None:
    base = "class HoldfastError(Exception): ...\n"
    base += (
        "class Refused(HoldfastError):\n    def __init__(self, message, *, remedy, **values): ...\n"
    )
    good = 'Refused("{nick} is taken", nick=a, table=t, remedy="Set {table}.nick")\n'
    texts, problems = extracted(tmp_path, core__errors=base + good)
    assert [text for text, _ in texts] == ["Set {table}.nick", "{nick} is taken"] and not problems
    lacking = 'Refused("no", remedy="Set {table}.nick")\nRefused("no", remedy=f"Set {t}")\n'
    unused = 'Refused("no", table=t, key=k, remedy="Set {table}.nick")\n'
    _, problems = extracted(tmp_path, core__errors=base + lacking + unused)
    assert [problem.split(" ")[-1] for problem in problems] == ["table.", "it.", "key."]


@pytest.mark.parametrize("tag", catalogue.translations())
def test_translations_have_the_values_of_the_text(tag: str) -> None:
    translated = catalogue.read_catalogue(catalogue.translations()[tag])
    assert not list(catalogue.mistranslations(translated))


def test_marked_texts_are_collected_from_python(tmp_path: Path) -> None:
    source = """
TABLE = {"a": N_("A label")}
print(_("Hello {name}.").format(name=name), _(TABLE["a"]))
print(_n("{n} file", "{n} files", n).format(n=n))
print(_("one" if x else "two"))
print(_("a long "
        "text"))
"""
    texts, problems = extracted(tmp_path, core__a=source)
    assert texts == [
        ("A label", None),
        ("Hello {name}.", None),
        ("{n} file", "{n} files"),
        ("one", None),
        ("two", None),
        ("a long text", None),
    ]
    assert not problems


def test_messages_of_errors_are_collected(tmp_path: Path) -> None:
    source = """
class HoldfastError(Exception):
    def __init__(self, message, /, **values): ...
class StoreError(HoldfastError): ...
class Full(StoreError):
    def __init__(self, path):
        super().__init__("{path} is full.", path=path)
class Throttled(StoreError):
    def __init__(self, message, *, retry_after, **values): ...
class Refused(StoreError):
    def __init__(self, status, message, **values): ...
def not_found(message, *, param=None, **values) -> Refused:
    return Refused(404, message, **values)
"""
    use = """
raise errors.StoreError("Could not open {file}: {error}.", file=file, error=error)
raise Full("not a message")
raise Throttled("Wait.", retry_after=3)
raise Refused(400, "Not {this}." if x else "Not {this} either.", this=this)
raise not_found("There is no {id}.", param="id", id=id)
raise ValueError("not ours")
"""
    texts, problems = extracted(tmp_path, core__a=source, core__b=use)
    assert [text for text, _ in texts] == [
        "{path} is full.",
        "Could not open {file}: {error}.",
        "Wait.",
        "Not {this}.",
        "Not {this} either.",
        "There is no {id}.",
    ]
    assert not problems


def all_commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from all_commands(inner)


def test_every_help_text_that_is_shown_is_collected() -> None:
    collected = {text.singular for text in catalogue.extract().texts}
    shown = set[str]()
    for command in all_commands(root):
        shown |= {paragraph for _, paragraph in split_help(command.help or "")}
        shown |= {command.short_help or ""}
        shown |= {getattr(parameter, "help", None) or "" for parameter in command.params}
    assert len(shown) > 200
    assert shown - collected == {""}


def test_the_texts_of_click_are_collected() -> None:
    texts = {(text.singular, text.plural) for text in catalogue.extract().texts}
    assert ("Usage:", None) in texts
    assert ("Try '{command} {option}' for help.", None) in texts
    assert any(one.startswith("Option {name!r} requires") and many for one, many in texts)


def test_help_texts_of_commands_are_collected_by_paragraph(tmp_path: Path) -> None:
    source = '''
@click.group(epilog="See also.")
def jobs() -> None:
    """Schedule jobs.

    \\b
    Examples:
      holdfast jobs
    """

@jobs.command("add")
@click.option("--when", help="When it runs.")
def add(when: str) -> None:
    """Add a job."""

def helper() -> None:
    """Not a command."""
'''
    texts, _ = extracted(tmp_path, cli__a=source)
    assert {text for text, _ in texts} == {
        "Schedule jobs.",
        "Examples:\n  holdfast jobs",
        "See also.",
        "Add a job.",
        "When it runs.",
    }


def test_texts_of_the_page_are_collected_inside_template_strings(tmp_path: Path) -> None:
    source = """
// _("a comment") isn't one
const A = _("It's {name}", { name: pick({ a: 1 }), }), B = a / b, C = /[/"`]_("x")/.test(D);
const v = html`<p title=${_("Title")}>Don't _("x") ${y && html`<b>${_("Deep")}</b> ${`${1}`}`}</p>`;
const n = _n("{n} turn in {chat}", "{n} turns in {chat}", count, { chat });
object._("a method");
"""
    texts, problems = extracted(tmp_path, page__a=source)
    assert texts == [
        ("It's {name}", None),
        ("Title", None),
        ("Deep", None),
        ("{n} turn in {chat}", "{n} turns in {chat}"),
    ]
    assert not problems


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        ('_(f"Hello {name}")', "f-string"),
        ('_("Hello " + name)', "f-string or an expression"),
        ('_("Hello {}".format(name))', "fill in the values after"),
        ('_("")', "empty text"),
        ('_("Hello {name}.").format(nam=name)', "lacks the value name"),
        ('_("Hello.").format(name=name)', "does not use name"),
        ('_("Hello {0}.").format(name)', "by name"),
        ('_n("{n} file", files, n)', "two literal strings"),
        ('_("{n} file"); _n("{n} file", "{n} files", n)', "has the plural"),
        ('def f():\n    a, _ = pair\n    return _("Hello.")', "rename"),
        ('HoldfastError("Hello {name}.", nam=name)', "lacks the value name"),
    ],
)
def test_a_text_that_cannot_be_translated_is_a_problem(
    tmp_path: Path, python: str, problem: str
) -> None:
    _, problems = extracted(tmp_path, core__a=python)
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("_(`Hello ${name}`)", "not an expression"),
        ('_("Hello " + name)', "not an expression"),
        ('_("Hello {name}", { nam: 1 })', "lacks the value name"),
        ('_("Hello", { name })', "does not use name"),
        ('_n("{n} file", more, 1)', "not an expression"),
        ('_(" ")', "empty"),
    ],
)
def test_a_text_of_the_page_that_cannot_be_translated_is_a_problem(
    tmp_path: Path, script: str, problem: str
) -> None:
    _, problems = extracted(tmp_path, page__a=script)
    assert problem in problems[0]


def test_a_translation_is_updated_and_compiled(tmp_path: Path) -> None:
    locale = tmp_path / "locale"
    source = f"{catalogue.PAGE}a.js"
    texts = [
        catalogue.Text("Stop", None, source, 1),
        catalogue.Text("{n} turn", "{n} turns", source, 2),
        catalogue.Text("Only Python. \bNot wrapped", None, "holdfast/cli/a.py", 1),
    ]
    catalogue._begin("pt-BR", locale)
    write(catalogue.files(texts, locale))
    po = locale / "pt_BR/LC_MESSAGES/holdfast.po"
    translated = po.read_text().replace('msgid "Stop"\nmsgstr ""', 'msgid "Stop"\nmsgstr "Parar"')
    for index, form in enumerate(("{n} turno", "{n} turnos")):
        translated = translated.replace(f'msgstr[{index}] ""', f'msgstr[{index}] "{form}"')
    po.write_text(translated)
    assert [path.name for path in catalogue.outdated(texts, locale)] == ["holdfast.mo", "page.json"]
    write(catalogue.files(texts, locale))
    assert not catalogue.outdated(texts, locale)
    page = ast.literal_eval((locale / "pt_BR/page.json").read_text())
    assert page["language"] == "pt-BR"
    assert page["texts"] == {"Stop": "Parar", "{n} turn": ["{n} turno", "{n} turnos"]}
    assert page["plurals"][:3] == "001"  # the rule of Brazilian Portuguese
    assert len(page["plurals"]) == catalogue.PLURALS_KNOWN


def test_translations_that_lack_a_value_are_found() -> None:
    found = catalogue.parsed(
        'msgid "{a} of {b!r}"\nmsgstr "{a} von {b}"\n\n'
        'msgid "{n} file"\nmsgid_plural "{n} files"\n'
        'msgstr[0] "eine Datei"\nmsgstr[1] "{n} Dateien"\n',
        "de",
    )
    assert len(list(catalogue.mistranslations(found))) == 1


def write(files: dict[Path, bytes]) -> None:
    for path, content in files.items():
        path.write_bytes(content)

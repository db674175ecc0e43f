"""Collects the texts that people read, and keeps the translations up to date with them.

    make catalogue              # write holdfast.pot, update and compile every translation
    make catalogue ARGS=de      # the same, and begin a translation to German
    make catalogue ARGS=--check # write nothing; fail where the source or a file is not in order

Written for each language, in `src/holdfast/locale/` and its tag as gettext has it (`de`, `pt_BR`):

- `LC_MESSAGES/holdfast.po`: what translators edit;
- `LC_MESSAGES/holdfast.mo`: the same, compiled, for Python;
- `page.json`: the texts of the page alone, for browsers.

The compiled files are in git: a checkout, an editable installation and a wheel then read the same
files, and neither `make run` nor the build of a package needs a step of its own. They depend on
nothing but the `.po`, so a conflict in one is solved by running `make catalogue`.

What is collected, and the rules for it, are in CONTRIBUTING.md ("Texts and translations").
"""

import argparse
import ast
import gettext
import inspect
import io
import json
import re
import string
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from holdfast.cli.common.language import split_help

SOURCE = Path(__file__).parent.parent / "src"
PACKAGE = SOURCE / "holdfast"
LOCALE = PACKAGE / "locale"
PAGE = "holdfast/server/page/static/"
CLICK = "click/"
TEMPLATE = "holdfast.pot"
DOMAIN = "holdfast"

CURRENT_IS_CHECKED = True
PLURALS_KNOWN = 200  # forms that page.json lists; translation.js has the same number
WIDTH = 100
HEADER = "# Texts of Holdfast. Written by `make catalogue`."
BASE_ERROR = "HoldfastError"
REMEDY = "remedy"  # of an error: a text with the same values as the message
HELP_TAKERS = ("command", "group", "option", "argument", "Command", "Group", "Option")  # of click
HELP_KEYWORDS = ("help", "short_help", "epilog")
COMMAND_DECORATORS = ("command", "group")
# They change with every run, and tell a translator nothing.
VOLATILE_HEADERS = ("POT-Creation-Date", "PO-Revision-Date", "Generated-By")


class Text(NamedTuple):
    """One marked text where it stands in the source."""

    singular: str
    plural: str | None
    file: str
    line: int


class Problem(NamedTuple):
    """A place in the source where a text cannot be translated, or not be filled in."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"src/{self.file}:{self.line}: {self.text}"


class Extraction(NamedTuple):
    texts: list[Text]
    problems: list[Problem]


# -- the whole source --------------------------------------------------------------------------


def extract(source: Path = SOURCE) -> Extraction:
    """All marked texts, in the order of files and lines, and what is wrong with the marking."""
    found = Extraction([], [])
    modules = {
        path.relative_to(source).as_posix(): ast.parse(path.read_text())
        for path in sorted(source.rglob("*.py"))
    }
    errors = ErrorClasses(modules.values())
    for file, module in modules.items():
        _PythonTexts(file, module, errors, found).collect()
    scripts = sorted((source / PAGE).rglob("*.js"))
    for path in scripts:
        if "vendor" not in path.parts and path.name != "translation.js":
            _script_texts(path.relative_to(source).as_posix(), path.read_text(), found)
    if source == SOURCE:
        found.texts.extend(_click_texts())
    found.problems.extend(_contradictions(found.texts))
    return found


def _click_texts() -> Iterator[Text]:
    """The texts of the library of the command line itself: `Usage:`, and errors of options."""
    for path in sorted(Path(click.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            values = [each.value for each in node.args if isinstance(each, ast.Constant)]
            literals = [each for each in values if isinstance(each, str)]
            file = f"{CLICK}{path.name}"
            if node.func.id == "_" and literals:
                yield Text(literals[0], None, file, node.lineno)
            elif node.func.id == "ngettext" and len(literals) == 2:
                yield Text(literals[0], literals[1], file, node.lineno)


def _contradictions(texts: Sequence[Text]) -> Iterator[Problem]:
    """A catalogue has one entry for a text, with one plural or none."""
    plurals: dict[str, Text] = {}
    for text in texts:
        first = plurals.setdefault(text.singular, text)
        if first.plural != text.plural:
            yield Problem(
                text.file,
                text.line,
                f"{text.singular!r} has the plural {text.plural!r} here, and {first.plural!r} in "
                f"src/{first.file}:{first.line}. Use the same plural in both places.",
            )


def placeholders(text: str) -> set[str]:
    """The names of the values in a text; a `!r` or a format belongs to the name."""
    return {
        name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for _, name, spec, conversion in string.Formatter().parse(text)
        if name is not None
    }


def _names_or_none(text: str) -> set[str]:
    try:
        return _names(text)
    except ValueError:
        return set()


def _names(text: str) -> set[str]:
    return {
        re.split(r"[.\[]", name)[0]
        for _, name, _, _ in string.Formatter().parse(text)
        if name is not None
    }


# -- Python ------------------------------------------------------------------------------------


class ErrorClasses:
    """Which classes are errors whose first argument is a message, by the name of the class."""

    def __init__(self, modules: Iterable[ast.Module]) -> None:
        nodes = [node for module in modules for node in ast.walk(module)]
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        bases = {node.name: {_last_name(base) for base in node.bases} for node in classes}
        self.names = {BASE_ERROR}
        while more := {name for name in bases if bases[name] & self.names} - self.names:
            self.names |= more
        self._parameters = {
            node.name: parameters
            for node in classes
            if node.name in self.names and (parameters := _init_parameters(node)) is not None
        }
        self._bases = bases
        # Functions that make an error of their message: `not_found(message, …) -> EndpointError`.
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                parameters = _parameters(node)
                if _last_name(node.returns) in self.names and parameters[:1] == ["message"]:
                    known = self._parameters.setdefault(node.name, [])  # of another module
                    known += [each for each in parameters if each not in known]

    def parameters(self, name: str) -> list[str]:
        """Of its constructor, or of the one that it inherits."""
        if name in self._parameters:
            return self._parameters[name]
        inherited = [base for base in self._bases.get(name, ()) if base in self.names]
        return self.parameters(inherited[0]) if inherited else ["message"]

    def message_index(self, name: str) -> int | None:
        """Where a call of this class or function has its message; None: it has none."""
        if name not in self.names and name not in self._parameters:
            return None
        parameters = self.parameters(name)
        return parameters.index("message") if "message" in parameters[:2] else None


def _init_parameters(node: ast.ClassDef) -> list[str] | None:
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            return _parameters(function)[1:]
    return None


def _parameters(node: ast.FunctionDef) -> list[str]:
    args = node.args
    return [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _PythonTexts:
    """The texts of one module."""

    def __init__(
        self, file: str, module: ast.Module, errors: ErrorClasses, found: Extraction
    ) -> None:
        self._file = file
        self._module = module
        self._errors = errors
        self._found = found
        self._translates = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "holdfast.core.text.translation"
            and any(alias.name in ("_", "_n", "N_") for alias in node.names)
            for node in module.body
        )
        self._commands = file.startswith("holdfast/cli/")

    def collect(self) -> None:
        nodes = [node for node in ast.walk(self._module) if hasattr(node, "lineno")]
        for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
            match node:
                case ast.ClassDef() if node.name in self._errors.names:
                    self._own_message(node)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(node)
                case ast.Call():
                    self._call(node)

    def _call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        if self._translates and isinstance(node.func, ast.Name) and name in ("_", "N_", "_n"):
            self._marked(node, name)
        elif (index := self._errors.message_index(name)) is not None and len(node.args) > index:
            self._error(node, name, node.args[index])
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            self._formatted(node)
        if self._commands and name in HELP_TAKERS:
            for keyword in node.keywords:
                if keyword.arg in HELP_KEYWORDS:
                    self._help(keyword.value, paragraphs=keyword.arg == "epilog")

    def _marked(self, node: ast.Call, name: str) -> None:
        literals = [self._literals(argument, node, name) for argument in node.args[:2]]
        if name != "_n":
            for text in literals[0]:
                self._add(text, None, node)
        elif len(node.args) == 3 and all(len(texts) == 1 for texts in literals):
            self._add(literals[0][0], literals[1][0], node)
        elif len(node.args) != 3 or any(isinstance(each, ast.Constant) for each in node.args[:2]):
            self._problem(node, "_n() needs two literal strings and a number.")

    def _literals(self, argument: ast.expr, node: ast.Call, name: str) -> list[str]:
        """The texts that an argument can be; none for a constant, which is marked where it is
        defined."""
        match argument:
            case ast.Constant(value=str(text)):
                if not text.strip():
                    self._problem(node, f"{name}() of an empty text; do not mark it.")
                return [text]
            case ast.IfExp():
                return [
                    *self._literals(argument.body, node, name),
                    *self._literals(argument.orelse, node, name),
                ]
            case ast.JoinedStr() | ast.BinOp():
                self._problem(
                    node,
                    f"an f-string or an expression inside {name}(): the catalogue cannot know the "
                    'text. Use _("… {name} …").format(name=…).',
                )
            case ast.Call(func=ast.Attribute(attr="format" | "join")):
                self._problem(node, f"fill in the values after {name}(), not inside.")
            case _ if name == "N_":
                self._problem(node, "N_() needs a literal string.")
        return []

    def _error(self, node: ast.Call, name: str, message: ast.expr) -> None:
        texts: list[str] = []
        match message:
            case ast.Constant(value=str(text)):
                texts = [text]
            case ast.IfExp(body=ast.Constant(value=str(one)), orelse=ast.Constant(value=str(two))):
                texts = [one, two]
        own = set(self._errors.parameters(name))
        given = {keyword.arg for keyword in node.keywords}
        remedies = [each.value for each in node.keywords if each.arg == REMEDY and REMEDY in own]
        of_remedies: set[str] = set()  # they have the same values
        for remedy in remedies:
            match remedy:
                case ast.Constant(value=str(text)) if text:
                    self._add(text, None, node)
                    of_remedies |= _names_or_none(text)
                    if missing := of_remedies - {each for each in given if each}:
                        lacks = f"{text!r} lacks the value {', '.join(sorted(missing))}."
                        self._problem(node, lacks)
                case ast.JoinedStr() | ast.BinOp():
                    self._problem(node, "a remedy is an f-string: the catalogue cannot know it.")
        for text in texts:
            self._add(text, None, node)
            values = {each for each in given if each} - (own - _names_or_none(text)) - of_remedies
            values |= _names_or_none(text) & given & of_remedies
            if None not in given and values:
                # A function of that name in another module may have other parameters.
                optional = set() if name in self._errors.names else values
                self._compare(text, values, node, optional)

    def _own_message(self, node: ast.ClassDef) -> None:
        """What an error passes to its base class as the message."""
        if self._errors.message_index(node.name) is None or _init_parameters(node) is not None:
            for call in ast.walk(node):
                match call:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Call(func=ast.Name(id="super"))),
                        args=[ast.Constant(value=str(text)), *_],
                    ):
                        self._add(text, None, call)

    def _formatted(self, node: ast.Call) -> None:
        """`_("…").format(…)`: are all values there?"""
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="_" | "_n"), args=args)):
                given = {keyword.arg for keyword in node.keywords}
                texts = [each.value for each in args if isinstance(each, ast.Constant)]
                if node.args:
                    self._problem(node, "values of a translated text are passed by name.")
                elif None not in given:
                    for text in (each for each in texts if isinstance(each, str)):
                        self._compare(text, {each for each in given if each}, node, {"n"})

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = [
            each.func if isinstance(each, ast.Call) else each for each in node.decorator_list
        ]
        is_command = any(_last_name(each) in COMMAND_DECORATORS for each in decorators)
        if self._commands and is_command and (text := ast.get_docstring(node, clean=False)):
            self._add_paragraphs(text, node)
        if self._translates and "_" in _assigned(node) and _calls_translation(node):
            self._problem(node, f"{node.name} assigns _ and translates with it; rename the former.")

    def _help(self, value: ast.expr, *, paragraphs: bool) -> None:
        match value:
            case ast.Constant(value=str(text)) if paragraphs:
                self._add_paragraphs(text, value)
            case ast.Constant(value=str(text)) if text.strip():
                self._add(inspect.cleandoc(text), None, value)
            case ast.JoinedStr():
                self._problem(value, "a help text is an f-string: the catalogue cannot know it.")

    def _add_paragraphs(self, text: str, node: ast.AST) -> None:
        """As the command line translates them when it shows the help."""
        for _start, paragraph in split_help(text):
            self._add(paragraph, None, node)

    def _compare(self, text: str, given: set[str], node: ast.AST, optional: set[str]) -> None:
        try:
            wanted = _names(text)
        except ValueError as error:
            self._problem(node, f"{text!r}: {error}.")
            return
        if missing := wanted - given:
            self._problem(node, f"{text!r} lacks the value {', '.join(sorted(missing))}.")
        if unused := given - wanted - optional:
            self._problem(node, f"{text!r} does not use {', '.join(sorted(unused))}.")

    def _add(self, singular: str, plural: str | None, node: ast.AST) -> None:
        # Punctuation and values alone are the same in every language.
        if any(character.isalpha() for character in re.sub(r"{[^{}]*}", "", singular)):
            self._found.texts.append(Text(singular, plural, self._file, _line(node)))

    def _problem(self, node: ast.AST, text: str) -> None:
        self._found.problems.append(Problem(self._file, _line(node), text))


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Of a function, without those of functions and comprehensions inside, which have names of
    their own."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.comprehension, ast.ClassDef)
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, inner):
            yield from _own_nodes(child)


def _assigned(node: ast.AST) -> set[str]:
    return {
        each.id
        for each in _own_nodes(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _calls_translation(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "_"
        for each in ast.walk(node)
    )


# -- JavaScript --------------------------------------------------------------------------------


class Token(NamedTuple):
    kind: str  # "name", "string", "template", "template-end", "regex", "other"
    value: str
    line: int


_SCRIPT = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<name>[A-Za-z_$][\w$]*|\d[\w.]*)
    | (?P<other>=>|\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
_TEMPLATE_PART = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*", re.DOTALL)
_BEFORE_DIVISION = ("name", "string", "regex", "template-end")
_KEYWORDS_BEFORE_VALUE = ("return", "typeof", "case", "of", "in", "await", "yield")


def tokens(script: str) -> list[Token]:
    """Of JavaScript, as far as finding calls needs it: the code inside template strings, too, which
    Babel's own extractor does not see."""
    found: list[Token] = []
    depths: list[int] = []  # of braces, for each template string that we are inside of
    position = 0

    def add(kind: str, value: str) -> None:
        found.append(Token(kind, value, script.count("\n", 0, position) + 1))

    def template() -> int:
        """Behind the part of a template string that begins here."""
        end = _TEMPLATE_PART.match(script, position)
        assert end is not None
        if script.startswith("${", end.end()):
            depths.append(0)
            add("template", "${")
            return end.end() + 2
        add("template-end", "`")
        return end.end() + 1

    while position < len(script):
        regex = _REGEX.match(script, position)
        if regex and _begins_value(found):
            add("regex", regex.group())
            position = regex.end()
            continue
        match = _SCRIPT.match(script, position)
        assert match is not None
        kind, value = str(match.lastgroup), match.group()
        if value == "`":
            position += 1
            position = template()
            continue
        if value == "}" and depths and depths[-1] == 0:
            depths.pop()
            add("other", "}")
            position += 1
            position = template()
            continue
        if depths and value in "{}":
            depths[-1] += 1 if value == "{" else -1
        if kind != "space":
            add(kind, value)
        position = match.end()
    return found


def _begins_value(found: Sequence[Token]) -> bool:
    """Whether a slash here begins a regular expression, and does not divide."""
    if not found:
        return True
    last = found[-1]
    if last.kind in _BEFORE_DIVISION:
        return last.value in _KEYWORDS_BEFORE_VALUE
    return last.value not in (")", "]", "}")


def _script_texts(file: str, script: str, found: Extraction) -> None:
    stream = tokens(script)
    for index, token in enumerate(stream[:-1]):
        before = stream[index - 1].value if index else ""
        if token.kind != "name" or token.value not in ("_", "_n") or stream[index + 1].value != "(":
            continue
        if before in (".", "function"):
            continue
        arguments = _arguments(stream, index + 2)
        wanted = 2 if token.value == "_n" else 1
        literals = [_script_literal(argument) for argument in arguments[:wanted]]
        known = [literal for literal in literals if literal is not None]
        if len(known) < wanted:
            text = f"{token.value}() needs {wanted} literal string(s), not an expression."
            found.problems.append(Problem(file, token.line, text))
            continue
        plural = known[1] if wanted == 2 else None
        if not known[0].strip():
            found.problems.append(Problem(file, token.line, "an empty text is marked."))
            continue
        found.texts.append(Text(known[0], plural, file, token.line))
        values = arguments[wanted + (1 if wanted == 2 else 0) :]
        given = _script_keys(values[0]) if values else set()
        if given is not None:
            for each in known:
                names = _names(each) - ({"n"} if wanted == 2 else set())
                if names - given:
                    missing = ", ".join(sorted(names - given))
                    text = f"{each!r} lacks the value {missing}."
                    found.problems.append(Problem(file, token.line, text))
            if unused := given - set().union(*map(_names, known)):
                text = f"{known[0]!r} does not use {', '.join(sorted(unused))}."
                found.problems.append(Problem(file, token.line, text))


def _arguments(stream: Sequence[Token], start: int) -> list[list[Token]]:
    """Of the call whose bracket is before `start`."""
    depth, arguments = 0, [list[Token]()]
    for token in stream[start:]:
        opens = token.value in ("(", "[", "{", "${") and token.kind in ("other", "template")
        closes = token.value in (")", "]", "}") and token.kind == "other"
        if closes and depth == 0:
            break
        depth += opens - closes
        if token.value == "," and depth == 0 and token.kind == "other":
            arguments.append([])
        else:
            arguments[-1].append(token)
    return [argument for argument in arguments if argument]


def _script_literal(argument: Sequence[Token]) -> str | None:
    if len(argument) != 1 or argument[0].kind != "string":
        return None
    text = argument[0].value[1:-1]
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text)


def _script_keys(argument: Sequence[Token]) -> set[str] | None:
    """The names in an object literal; None where they cannot be known."""
    if argument[0].value != "{" or any(token.value == "..." for token in argument):
        return None
    keys, depth, fresh = set(), 0, False
    for token in argument:
        if depth == 1 and fresh and token.kind == "name":
            keys.add(token.value)
        depth += token.value in ("{", "(", "[", "${") and token.kind in ("other", "template")
        depth -= token.value in ("}", ")", "]") and token.kind == "other"
        fresh = depth == 1 and token.value in ("{", ",")
    return keys


# -- the files ---------------------------------------------------------------------------------


def template(texts: Sequence[Text]) -> Catalog:
    catalogue = Catalog(project="Holdfast", fuzzy=False, header_comment=HEADER)
    for text in texts:
        key = text.singular if text.plural is None else (text.singular, text.plural)
        folder = "" if text.file.startswith(CLICK) else "src/"
        catalogue.add(key, locations=[(f"{folder}{text.file}", 0)])
    return catalogue


def rendered(catalogue: Catalog) -> str:
    """As a .po file, without what changes from run to run."""
    buffer = io.BytesIO()
    write_po(buffer, catalogue, width=WIDTH, include_lineno=False, ignore_obsolete=True)
    lines = buffer.getvalue().decode().splitlines(keepends=True)
    volatile = tuple(f'"{header}:' for header in VOLATILE_HEADERS)
    text = "".join(line for line in lines if not line.startswith(volatile))
    return text


def read_catalogue(path: Path) -> Catalog:
    return parsed(path.read_text(), path.parent.parent.name)


def parsed(content: str, tag: str) -> Catalog:
    return read_po(io.StringIO(content), locale=tag.replace("-", "_"), domain=DOMAIN)


class StableCatalog(Catalog):
    """A catalogue whose header does not change from run to run."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        headers = super().mime_headers
        return [each for each in headers if each[0] not in VOLATILE_HEADERS]


def compiled(catalogue: Catalog) -> bytes:
    stable = StableCatalog(locale=catalogue.locale, project="Holdfast")
    for message in catalogue:
        if message.id and is_translated(message):
            stable[message.id] = message
    buffer = io.BytesIO()
    write_mo(buffer, stable)
    return buffer.getvalue()


def page_json(catalogue: Catalog, tag: str) -> str:
    """What translation.js needs: the page's texts, and the form for each number."""
    form = gettext.c2py(str(catalogue.plural_expr))
    texts = {
        message.id[0] if message.pluralizable else message.id: (
            list(message.string) if message.pluralizable else message.string
        )
        for message in catalogue
        if message.id and is_translated(message) and _is_of_page(message)
    }
    plurals = "".join(str(form(n)) for n in range(PLURALS_KNOWN))
    content = {"language": tag, "plurals": plurals, "texts": texts}
    return json.dumps(content, ensure_ascii=False, indent=0) + "\n"


def is_translated(message: Message) -> bool:
    if message.fuzzy:
        return False
    return all(message.string) if message.pluralizable else bool(message.string)


def _is_of_page(message: Message) -> bool:
    return any(f"src/{PAGE}" in file for file, _ in message.locations)


def translations(locale: Path = LOCALE) -> dict[str, Path]:
    """The .po file of each language, by its tag as in HTTP and HTML: `pt-BR`."""
    files = sorted(locale.glob(f"*/LC_MESSAGES/{DOMAIN}.po"))
    return {path.parent.parent.name.replace("_", "-"): path for path in files}


def mistranslations(catalogue: Catalog) -> Iterator[str]:
    """Translations that lack a value or have one too many: filled in, they would fail or lie."""
    for message in catalogue:
        if not message.id or not is_translated(message):
            continue
        ids = message.id if message.pluralizable else (message.id,)
        strings = message.string if message.pluralizable else (message.string,)
        allowed = set().union(*(placeholders(each) for each in ids))
        # The form for one may say it in words: "a file" for "{n} file".
        required = set.intersection(*(placeholders(each) for each in ids)) - {"n"}
        for each in strings:
            try:
                names = placeholders(each)
            except ValueError as error:
                yield f"{each!r}: {error}"
                continue
            if not required <= names <= allowed:
                yield f"{ids[0]!r} has {sorted(allowed)}, its translation {each!r} {sorted(names)}"


def files(texts: Sequence[Text], locale: Path = LOCALE) -> dict[Path, bytes]:
    """All files as they should be."""
    current = template(texts)
    wanted = {locale / TEMPLATE: rendered(current).encode()}
    for tag, path in translations(locale).items():
        catalogue = read_catalogue(path)
        catalogue.update(current, update_header_comment=False)
        wanted[path] = rendered(catalogue).encode()
        # Read again: as git and translators have it.
        again = parsed(wanted[path].decode(), tag)
        wanted[path.with_suffix(".mo")] = compiled(again)
        wanted[path.parent.parent / "page.json"] = page_json(again, tag).encode()
    return wanted


def outdated(texts: Sequence[Text], locale: Path = LOCALE) -> list[Path]:
    """Files that `make catalogue` would change."""
    return [
        path
        for path, content in files(texts, locale).items()
        if not path.exists() or path.read_bytes() != content
    ]


def _begin(tag: str, locale: Path = LOCALE) -> None:
    path = locale / tag.replace("-", "_") / "LC_MESSAGES" / f"{DOMAIN}.po"
    if not path.exists():
        path.parent.mkdir(parents=True)
        catalogue = Catalog(locale=tag.replace("-", "_"), project="Holdfast", fuzzy=False)
        catalogue.header_comment = f"# Texts of Holdfast: {catalogue.locale.english_name}."
        path.write_text(rendered(catalogue))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make catalogue ARGS=…")
    parser.add_argument("tag", nargs="*", help="begin a translation to this language, e.g. pt-BR")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    found = extract()
    for problem in found.problems:
        print(problem, file=sys.stderr)
    if options.check:
        old = outdated(found.texts)
        for path in old:
            print(f"{path.relative_to(SOURCE.parent)} is not current: run `make catalogue`.")
        return 1 if old or found.problems else 0
    for tag in options.tag:
        _begin(tag)
    for path, content in files(found.texts).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for tag, path in translations().items():
        catalogue = read_catalogue(path)
        done = sum(is_translated(message) for message in catalogue if message.id)
        print(f"{tag}: {done} of {len(catalogue)} texts are translated")
    print(f"{len(template(found.texts))} texts")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())

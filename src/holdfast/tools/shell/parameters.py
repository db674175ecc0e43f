"""Parameters: `$x` and the forms of `${x…}`, as far as the value of x is known."""

import re
from collections.abc import Callable
from fnmatch import translate
from typing import TYPE_CHECKING

from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.shell import ShellState

if TYPE_CHECKING:
    from tree_sitter import Node

ExpandWord = Callable[["Node"], str]
_NAME_NODES = ("variable_name", "special_variable_name", "subscript")


def expand_parameter(node: "Node", *, shell: ShellState, word: ExpandWord) -> str:
    """`word` expands the words that may stand inside the braces."""
    name, after = _name_and_rest(node)
    value = _parameter_value(name, shell)
    if not after:
        return UNKNOWN if value is None else value
    operator = (after[0].text or b"").decode(errors="replace")
    words = [word(child) for child in after[1:] if child.is_named]
    return _apply_operator(operator, value, words, name=name, shell=shell)


def _name_and_rest(node: "Node") -> tuple[str, list["Node"]]:
    children = [child for child in node.children if child.type not in ("$", "${", "}")]
    for at, child in enumerate(children):
        if child.type in _NAME_NODES:
            name = (child.text or b"").decode(errors="replace")
            rest = children[at + 1 :]
            return name, rest or children[:at]
    return "", []


def _parameter_value(name: str, shell: ShellState) -> str | None:
    plain, bracket, index = name.partition("[")
    if not bracket:
        return shell.variable(name)
    if index in ("@]", "*]"):
        return shell.variable(plain)
    exact = shell.variables.get(name)
    if exact is not None:
        return exact
    values = (shell.variables.get(plain) or "").split()
    at = index[:-1]
    return values[int(at)] if at.isdecimal() and int(at) < len(values) else None


def _apply_operator(
    operator: str, value: str | None, words: list[str], *, name: str, shell: ShellState
) -> str:
    default = words[0] if words else ""
    if operator in (":-", "-", ":=", "="):
        # With a value that nobody knows, the default is what may well be meant.
        result = value or default
        if operator in (":=", "=") and not value:
            shell.variables[name] = result
        return result
    if operator in (":+", "+"):
        return default if value is None or value else ""
    if value is None:
        return UNKNOWN
    return _transform(operator, value, words, shell)


def _transform(operator: str, value: str, words: list[str], shell: ShellState) -> str:
    match operator:
        case "!":
            found = shell.variable(value)
            return UNKNOWN if found is None else found
        case ":":
            return _substring(value, words)
        case "^^" | "^":
            return value.upper() if operator == "^^" else value[:1].upper() + value[1:]
        case ",," | ",":
            return value.lower() if operator == ",," else value[:1].lower() + value[1:]
        case "#" | "##" | "%" | "%%" if words:
            return _trim_pattern(operator, value, words[0])
        case "/" | "//" if words:
            count = 1 if operator == "/" else -1
            return value.replace(words[0], words[1] if len(words) > 1 else "", count)
        case "@" | "?" | ":?":
            return value
    return UNKNOWN


def _substring(value: str, words: list[str]) -> str:
    numbers = [int(word) for word in words if word.strip().lstrip("-").isdecimal()]
    if len(numbers) != len(words) or not numbers:
        return UNKNOWN
    start = numbers[0]
    if len(numbers) == 1:
        return value[start:]
    end = start + numbers[1] if numbers[1] >= 0 else len(value) + numbers[1]
    return value[start:end]


def _trim_pattern(operator: str, value: str, pattern: str) -> str:
    matching = re.compile(translate(pattern))
    lengths = range(len(value) + 1)
    for length in reversed(lengths) if len(operator) == 2 else lengths:
        cut = value[:length] if operator[0] == "#" else value[len(value) - length :]
        if length < 200 and matching.match(cut):
            return value[length:] if operator[0] == "#" else value[: len(value) - length]
    return value

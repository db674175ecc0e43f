"""Reading: what a script would run, touch and hide, found by walking it as a shell would."""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.tools.judging.calling import Calls
from holdfast.tools.judging.grammar import Grammar, is_overgrown
from holdfast.tools.judging.marks import CODED, NET, READ, UNKNOWN, bare, marks_of
from holdfast.tools.judging.place import Place
from holdfast.tools.judging.quoting import expand_braces, unescape_word
from holdfast.tools.judging.redirecting import redirect
from holdfast.tools.judging.run import Run, Seen, Sight, Touch, part_of
from holdfast.tools.judging.shell import Shell, usual_variables
from holdfast.tools.judging.words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_STEPS = 4000
DEEPEST = 48
MOST_TEXT = 250_000
MOST_ROUNDS = 16  # of a loop over known words

_FOREVER = frozenset(("true", ":", "/bin/true", "[ 1 ]", "[[ 1 ]]", "((1))", "(( 1 ))", "! false"))
_ENDS = re.compile(r"[;\n|&()]")
_OPENINGS = ("{", "}", "!", "if", "then", "else", "elif", "while", "until", "do", "")
_PAUSES = ("sleep", "wait", "read", "inotifywait", "break", "exit")


class Tangled(Exception):
    """There is more in a script than anybody would read."""


class Reading:
    """Owns what was found so far, and the shell at the place that is being read."""

    def __init__(self, grammar: Grammar, place: Place) -> None:
        self.runs: list[Run] = []
        self.touches: list[Touch] = []
        self.seen: list[Seen] = []
        self.shell = Shell(place=place, variables=usual_variables(place.home))
        self.words = Words(self)
        self._calls = Calls(self)
        self._grammar = grammar
        self._steps = 0
        self._length = 0  # of all scripts so far
        self._depth = 0
        self._spawning = 0  # pipes and `&` around the place that is being read
        self._stack: list[tuple[Node, int]] = []  # functions that run, and _spawning at the time
        self._called: set[str] = set()
        self._walks: dict[str, Callable[[Node, str], str]] = {
            "command": self._calls.command,
            "pipeline": self._pipe,
            "redirected_statement": self._redirected,
            "variable_assignment": self._assign,
            "variable_assignments": self._assign,
            "declaration_command": self._assign,
            "subshell": self._apart,
            "function_definition": self._define,
            "list": self._list,
            "for_statement": self._for,
            "while_statement": self._while,
            "c_style_for_statement": self._while,
            **dict.fromkeys(_WORDS, self._word),
            **dict.fromkeys(_BRANCHES, self._branches),
            **dict.fromkeys(_SEQUENCES, self._sequence),
        }

    # -- scripts

    def read(self, script: str, stdin: str = "") -> str:
        """Walk a script; what it prints."""
        self._length += len(script)
        if self._length > MOST_TEXT or is_overgrown(script):
            raise Tangled
        root = self._grammar.parse(script)
        if root.has_error:
            self._notice_unreadable(script)
        out = self.statement(root, stdin)
        if not self._depth:
            self._read_uncalled()
        return out

    def read_code(self, script: str, *, part: str, given: bool = False) -> str:
        """Walk a script that came by way of another: what is known of it is read, and what is
        not is noted. What a file holds is as good as the file, unless it was `given` as words:
        then somebody went round to have it unseen."""
        for mark, sight in _SIGHTS.items():
            if mark in script:
                self.see(sight, part)
        known = bare(script)
        if not known.strip():
            if UNKNOWN in script or (given and READ in script):
                self.see(Sight.UNKNOWN_CODE, part)
            return marks_of(script)
        if script.lstrip()[:1] == UNKNOWN:
            self.see(Sight.UNKNOWN_CODE, part)
        return self.read(script.replace(CODED, "").replace(NET, UNKNOWN))

    def see(self, sight: Sight, part: str) -> None:
        self.seen.append(Seen(sight=sight, part=part_of(part)))

    def _notice_unreadable(self, script: str) -> None:
        """The grammar knows a little less than bash. Where it is lost, the words of each line
        are tried as commands besides."""
        self.see(Sight.UNREADABLE, script.strip())
        for line in _ENDS.split(script)[:MOST_ROUNDS]:
            words = [plain for word in _words(line) for plain in expand_braces(unescape_word(word))]
            while words and words[0] in _OPENINGS:
                words.pop(0)
            if words:
                self._calls.call(words, "")

    def _read_uncalled(self) -> None:
        for name in [name for name in self.shell.functions if name not in self._called]:
            self.call_function(name, None, "")

    # -- statements

    def statement(self, node: "Node", stdin: str) -> str:
        """Walk whatever may stand where a command does; what it prints."""
        with self.deeper():
            return self._walk(node, stdin)

    @contextlib.contextmanager
    def deeper(self) -> Iterator[None]:
        """One level further down; raises Tangled where nobody would follow."""
        self._steps += 1
        if self._steps > MOST_STEPS or self._depth > DEEPEST:
            raise Tangled
        self._depth += 1
        yield
        self._depth -= 1

    def _walk(self, node: "Node", stdin: str) -> str:
        walk = self._walks.get(node.type)
        if walk is not None:
            return walk(node, stdin)
        self.words.look_inside(node)
        return ""

    def _assign(self, node: "Node", stdin: str) -> str:
        self._calls.assign(node)
        return ""

    def _word(self, node: "Node", stdin: str) -> str:
        self.words.text(node)
        return ""

    def _pipe(self, node: "Node", stdin: str) -> str:
        return self._pipeline(list(node.named_children), stdin)

    def _branches(self, node: "Node", stdin: str) -> str:
        with self.shell.maybe(folder=True):
            return self._sequence(node, stdin)

    def _sequence(self, node: "Node", stdin: str) -> str:
        out = []
        for child in node.children:
            if not child.is_named:
                continue
            following = child.next_sibling
            spawned = following is not None and following.type == "&"
            self._spawning += spawned
            unsure = self.shell.maybe(folder=True) if child.type == "list" else _SURE
            with unsure:
                out.append(self.statement(child, stdin))
            self._spawning -= spawned
        return "\n".join(filter(None, out))

    def _list(self, node: "Node", stdin: str) -> str:
        left, *rest = [child for child in node.children if child.is_named]
        out = self.statement(left, stdin)
        for child in rest:
            with self.shell.maybe(folder=any(one.type == "||" for one in node.children)):
                out += self.statement(child, stdin)
        return out

    def _pipeline(self, stages: list["Node"], stdin: str) -> str:
        outer = self.shell
        self._spawning += 1
        for stage in stages:
            self.shell = outer.copy()
            stdin = self.statement(stage, stdin)
        self._spawning -= 1
        self.shell = outer
        return stdin

    def _apart(self, node: "Node", stdin: str) -> str:
        outer, self.shell = self.shell, self.shell.copy()
        out = self._sequence(node, stdin)
        self.shell = outer
        return out

    def _redirected(self, node: "Node", stdin: str) -> str:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        work = redirect(self, redirects, stdin)
        out = self.statement(body, work.stdin) if body is not None else ""
        out = work.keep(self, out, bodiless=body is None)
        if work.piped:
            out = self._pipeline(work.piped, out)
        for after in work.after:
            out += self.statement(after, stdin)
        return out

    def _for(self, node: "Node", stdin: str) -> str:
        name = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = [
            word
            for child in node.children_by_field_name("value")
            for word in self.words.fields(child)
        ]
        out = ""
        for value in values[:MOST_ROUNDS] or [UNKNOWN]:
            if name is not None and body is not None:
                self.shell.variables[(name.text or b"").decode(errors="replace")] = value
                out = self.statement(body, stdin)
        return out

    def _while(self, node: "Node", stdin: str) -> str:
        body = node.child_by_field_name("body")
        condition = node.child_by_field_name("condition")
        text = "" if condition is None else _text(condition)
        forever = text in _FOREVER or (node.type == "c_style_for_statement" and condition is None)
        if forever and body is not None and _spawns(body):
            self.see(Sight.FORK_BOMB, _text(node))
        return self._sequence(node, stdin)

    # -- functions

    def _define(self, node: "Node", stdin: str) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.shell.functions[self.words.text(name)] = body
        return ""

    def call_function(self, name: str, arguments: tuple[str, ...] | None, stdin: str) -> str:
        """Walk a function's body. One that calls itself is walked once; one that does so while
        more of it runs beside is a fork bomb."""
        self._called.add(name)
        body = self.shell.functions[name]
        before = next((spawning for known, spawning in self._stack if known == body), None)
        if before is not None:
            if self._spawning > before:
                self.see(Sight.FORK_BOMB, f"{name}() {_text(body)}")
            return UNKNOWN
        self._stack.append((body, self._spawning))
        outer, self.shell.arguments = self.shell.arguments, arguments
        out = self.statement(body, stdin)
        self.shell.arguments = outer
        self._stack.pop()
        return out

    def spawns_itself(self) -> bool:
        return self._spawning > 0

    # -- what words need

    def expand(self, text: str) -> str:
        """The text of a here-document, which expands as if it stood in double quotes."""
        if "$" not in text and "`" not in text:
            return text
        root = self._grammar.parse('"' + text.replace('"', '\\"') + '"')
        string = next((node for node in _all(root, 4) if node.type == "string"), None)
        return text if string is None else self.words.text(string)

    def capture(self, node: "Node") -> str:
        outer, self.shell = self.shell, self.shell.copy()
        out = []
        for child in node.named_children:
            if child.type == "file_redirect":
                out.append(redirect(self, [child], "").stdin or READ)
            else:
                out.append(self.statement(child, ""))
        self.shell = outer
        return "\n".join(out).rstrip("\n")

    def as_file(self, node: "Node") -> str:
        path = f"/dev/fd/{63 + len(self.shell.files)}"
        self.shell.files[path] = self.capture(node)
        return path

    def move(self, folder: str) -> None:
        """Stand in another folder; where one path leads there from anywhere, for certain."""
        self.shell.elsewhere = ()
        self.shell.place = msgspec.structs.replace(self.shell.place, cwd=folder)


_SIGHTS = {
    NET: Sight.NETWORK_CODE,
    CODED: Sight.HIDDEN_CODE,
}
_SURE = contextlib.nullcontext()
_SEQUENCES = ("program", "compound_statement", "do_group", "negated_command", "ERROR")
_BRANCHES = ("if_statement", "case_statement", "elif_clause", "else_clause", "case_item")
_WORDS = ("word", "string", "raw_string", "concatenation")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def _spawns(body: "Node") -> bool:
    text = _text(body)
    if any(pause in text for pause in _PAUSES):
        return False
    return any(child.type == "&" for child in _all(body, 6))


def _all(node: "Node", depth: int) -> Iterator["Node"]:
    for child in node.children:
        yield child
        if depth:
            yield from _all(child, depth - 1)

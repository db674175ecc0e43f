"""Decision 57: what a part of the gateway depends on can be read off its parameters. No struct and
no function hides a long list of collaborators."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent
MAX_COLLABORATORS = 8
MORE_COLLABORATORS = {
    # They compose: the whole gateway, and the functions of the commands with what each uses.
    *("Gateway", "CommandContexts", "bind_commands", "load_commands"),
    "CommandDispatcher",  # nine: three are for the replies to what it refuses itself
}
"""Which have more, each with the reason."""
DATA_BASES = {"Struct", "NamedTuple", "Enum", "StrEnum", "IntEnum", "Flag", "Exception"}
AMBIENT = {"Clock", "IdFactory", "Runtime"}  # needed everywhere
FUNCTIONS = {"Callable", "Awaitable", "Coroutine", "Future", "Task", "type"}


class Collaborators:
    """Tells from annotations what is a collaborator, which is asked to do something, and what is
    data: structs, enums, ids and plain values. A struct that has collaborators counts as all of
    them, so that none is hidden in it."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self._classes: dict[str, ast.ClassDef] = {}
        self._aliases: dict[str, ast.expr] = {}
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._classes.setdefault(node.name, node)
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                    self._aliases.setdefault(last_name(node.targets[0]), node.value)

    def is_data(self, name: str) -> bool:
        bases = {last_name(base) for base in self._classes[name].bases}
        return bool(bases & DATA_BASES) or any(
            base in self._classes and self.is_data(base) for base in bases
        )

    def in_fields(self, name: str, *, within: frozenset[str] = frozenset()) -> int:
        """How many collaborators the fields of a struct have."""
        fields = (each for each in self._classes[name].body if isinstance(each, ast.AnnAssign))
        return sum(self.of(each.annotation, within=within | {name}) for each in fields)

    def of(self, annotation: ast.AST | None, *, within: frozenset[str] = frozenset()) -> int:
        """How many a parameter or a field brings. `within`: the structs that it is a field of."""
        match annotation:
            case ast.Constant(value=str(text)):
                return self.of(ast.parse(text, mode="eval").body, within=within)
            case ast.BinOp(left=left, right=right):  # one or the other
                return max(self.of(left, within=within), self.of(right, within=within))
            case ast.Subscript(value=outer, slice=inner):
                if last_name(outer) in FUNCTIONS:
                    return int(last_name(outer) == "Callable")
                each = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return max(self.of(one, within=within) for one in each)
        name = last_name(annotation)
        if name in AMBIENT or name in within:
            return 0
        if name in self._classes:
            return self.in_fields(name, within=within) if self.is_data(name) else 1
        if name in self._aliases:
            return self.of(self._aliases[name], within=within)
        return int(name == "TaskGroup")


def last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def collaborator_counts(tree: ast.Module, known: Collaborators) -> Iterator[tuple[str, int]]:
    """How many collaborators each class gets by its constructor, each struct has in its fields, and
    each function of a module gets as arguments. A private function gets what its caller has."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_"):
                yield node.name, in_parameters(node, known)
        elif isinstance(node, ast.ClassDef) and known.is_data(node.name):
            yield node.name, known.in_fields(node.name)
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    yield node.name, in_parameters(each, known)


def in_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, known: Collaborators) -> int:
    given = function.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    return sum(known.of(each.annotation) for each in every)


def trees(package: str = "") -> Iterator[ast.Module]:
    for file in sorted((SOURCE / package).rglob("*.py")):
        yield ast.parse(file.read_text())


def test_no_part_of_the_gateway_has_more_than_a_few_collaborators() -> None:
    known = Collaborators(trees())
    found = {
        name
        for tree in trees("gateway")
        for name, count in collaborator_counts(tree, known)
        if count > MAX_COLLABORATORS
    }
    assert found == MORE_COLLABORATORS


EXAMPLE = """
Close = Callable[[str], None]
class Store(Protocol): ...
class Outbox: ...
class Settings(Struct):
    name: str
    parent: "Settings | None"
class Begin(Command[None]): ...
class Command(Struct, Generic[R]): ...
class Bag(Struct):
    store: Store
    close: Close
    settings: Settings
class Larger(Struct):
    bag: Bag
    outboxes: Sequence[Outbox]
    clock: Clock
class Worker:
    def __init__(self, bag: Bag | None, *, tasks: asyncio.TaskGroup, names: list[str]) -> None: ...
async def run(store: Store, settings: Settings, larger: Larger, begin: Begin) -> None: ...
def _helper(larger: Larger, store: Store) -> None: ...
"""


@pytest.mark.parametrize(
    ("name", "count"),
    [("Settings", 0), ("Bag", 2), ("Larger", 3), ("Worker", 3), ("run", 4)],
)
def test_the_collaborators_in_a_struct_are_counted(name: str, count: int) -> None:
    tree = ast.parse(EXAMPLE)
    assert dict(collaborator_counts(tree, Collaborators([tree])))[name] == count

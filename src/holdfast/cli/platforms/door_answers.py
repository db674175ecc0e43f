"""What is to be set of an account: as options say it, as it stands, or as a person answers."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click
from msgspec import inspect

from holdfast.cli.platforms.door_person import Person
from holdfast.config.platforms import shape_of
from holdfast.config.schema import Node, describe, plain
from holdfast.config.toml_patch import Value
from holdfast.config.variables import value_of
from holdfast.core.config.settings import DEFAULT_ACCOUNT, holds_secret
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.door import Door
from holdfast.core.ports.question import Question
from holdfast.core.secret import Secret

_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)|file:.+")
_MADE_OF = 32  # bytes of a secret that is made by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What can be known without asking anybody."""

    standing: Mapping[str, Any]  # the account's table, as it is
    environ: Mapping[str, str]  # of this shell
    kept: Mapping[str, str]  # what `.env` has
    taken: frozenset[str]  # the variables that other accounts refer to


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """`values` are by the key in the account's table, `secrets` by the variable of `.env`."""

    values: dict[str, Value] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)


class Answering:
    """Owns the answers on their way. `person` None: nobody is there to be asked."""

    def __init__(
        self, door: Door[Any], account: str, around: Surroundings, *, person: Person | None
    ) -> None:
        self._door = door
        self._account = account
        self._around = around
        self._person = person
        self._found = Answers()
        # Every key that has an answer, in words; what stands already is one.
        self._said = {
            question.key: _shown(standing)
            for question in door.questions
            if (standing := self._standing(question.key)) is not None
        }

    def answers(self, given: Mapping[str, str]) -> Answers:
        """What is given goes before everything else; a key that nobody asks for may be given too.
        Raises for what is missing, and for a secret that is written out."""
        for question in self._door.questions:
            if question.key in given:
                self._give(question.key, given[question.key])
            elif self._said.get(question.unless):
                continue
            elif question.secret:
                self._ask_secret(question)
            else:
                self._ask(question)
        asked = {question.key for question in self._door.questions}
        for key, text in given.items():
            if key not in asked:
                self._give(key, text)
        return self._found

    def _give(self, key: str, text: str) -> None:
        if not holds_secret(key):
            self._put(key, self._read(key, text))
            return
        reference = _REFERENCE.fullmatch(text)
        if reference is None:
            raise HoldfastError(
                f"--set {key}: a secret on the command line is read by others. Put it into a "
                f"variable or a file, and say --set {key}=env:NAME or --set {key}=file:PATH."
            )
        if (name := reference[1]) is not None:
            self._take_variable(key, name)
        self._refer(key, text)

    def _take_variable(self, key: str, name: str) -> None:
        value = self._around.environ.get(name, "").strip()
        if value:
            self._found.secrets[name] = Secret(value)
        elif not self._around.kept.get(name):
            raise HoldfastError(f"--set {key}: {name} is not set, in this shell or in .env.")

    def _ask_secret(self, question: Question) -> None:
        key = question.key
        # Where a secret itself was written into the table, it is not shown, and is replaced.
        stands = _REFERENCE.fullmatch(str(self._standing(key) or ""))
        if stands is not None and not self._wants_another(question, stands[0]):
            return
        variable = (stands[1] if stands else None) or self._variable(question)
        value = "" if stands else self._known(variable)
        value = value or self._told(question, hint=f"--set {key}=env:{variable}")
        if not value and question.made:
            value = secrets.token_urlsafe(_MADE_OF)
        if not value:
            return
        if self._around.environ.get(variable, value) != value:
            # The environment goes before .env, and would hide the new secret behind the old.
            variable = f"{variable}_HOLDFAST"
        self._found.secrets[variable] = Secret(value)
        self._refer(key, f"env:{variable}")

    def _refer(self, key: str, reference: str) -> None:
        self._said[key] = self._found.values[key] = reference

    def _wants_another(self, question: Question, standing: str) -> bool:
        if self._person is None:
            return False
        asked = f"{question.label} is {standing} already; keep that?"
        return not self._person.agrees(asked)

    def _known(self, variable: str) -> str:
        value = self._around.environ.get(variable) or self._around.kept.get(variable) or ""
        asked = f"{variable} holds a value already; use that?"
        if value and (self._person is None or self._person.agrees(asked)):
            return value.strip()
        return ""

    def _ask(self, question: Question) -> None:
        standing = self._standing(question.key)
        if self._person is None and standing is not None:
            return
        offered = self._offered(question) if standing is None else _shown(standing)
        if self._person is None:
            text = offered or self._told(question, hint=f"--set {question.key}=…")
            if text:
                self._put(question.key, self._read(question.key, text))
            return
        while True:
            text = self._person.tell(question, offered=offered, unseen=False)
            if not text:
                return
            try:
                self._put(question.key, self._read(question.key, text))
            except HoldfastError as error:
                click.echo(click.style(str(error), fg="red"))
            else:
                return

    def _told(self, question: Question, *, hint: str) -> str:
        if self._person is not None:
            return self._person.tell(question, offered="", unseen=question.secret)
        if question.optional or question.made:
            return ""
        raise click.UsageError(
            f"{question.label} is missing, and nobody is here to be asked: say {hint}."
            + (f" {question.help}" if question.help else "")
        )

    def _read(self, key: str, text: str) -> Value:
        node = self._node(key)
        try:
            value: Value = text if node is None else value_of(plain(node)[0], text)
        except ValueError:
            assert node is not None, "a text may be anything"
            raise HoldfastError(f"{key} = {text!r} is not {describe(node)}.") from None
        return value

    def _put(self, key: str, value: Value) -> None:
        """What is so anyway is not written down."""
        self._said[key] = _shown(value)
        if self._standing(key) is None and value == self._usual(key):
            return
        self._found.values[key] = value

    def _offered(self, question: Question) -> str:
        return re.sub(r"\{([\w.]+)\}", lambda at: self._said.get(at[1], ""), question.default)

    def _standing(self, key: str) -> Any:
        """None: the table has no such key."""
        found: Any = self._around.standing
        for part in key.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def _variable(self, question: Question) -> str:
        name = question.variable or f"{self._door.name}_{question.key}"
        if self._account != DEFAULT_ACCOUNT:
            name = f"{name}_{self._account}"
        name = re.sub(r"\W", "_", name, flags=re.ASCII).upper()
        while name in self._around.taken:  # two accounts would have one secret
            name += "_"
        return name

    def _node(self, key: str) -> Node | None:
        """The kind of a key; None: its door knows none of that name, as the check will say."""
        node: Node | None = shape_of(self._door)
        for part in key.split("."):
            match node:
                case inspect.StructType():
                    fields = {each.name: each.type for each in node.fields}
                    node = fields.get(part)
                case inspect.DictType():
                    node = node.value_type
                case _:
                    return None
        return node

    def _usual(self, key: str) -> Any:
        """What holds where nothing is written."""
        for each in shape_of(self._door).fields:
            if each.name == key:
                return list(each.default) if isinstance(each.default, tuple) else each.default
        return None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

"""The settings of a new account: from options, from the current file, or asked for at the terminal."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import click
from msgspec import inspect

from holdfast.cli.common.output import wrap_text
from holdfast.config.environment import parse_value
from holdfast.config.platforms import plugin_schema
from holdfast.config.schema import Node, describe, unwrap_optional
from holdfast.config.toml_edit import TomlValue
from holdfast.core.config.settings import DEFAULT_ACCOUNT, is_secret_key
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.platform_plugin import PlatformPlugin, SetupQuestion
from holdfast.core.secrets import Secret


# MERGED holdfast.cli.platforms.door_person: Somebody who is asked at a terminal what a door wants to know.
class Prompter(Protocol):
    def ask(self, question: SetupQuestion, *, default: str, hidden: bool) -> str:
        """The answer; "" only where it may be left empty."""
        ...

    def confirm(self, question: str, *, default: bool = True) -> bool: ...


class TerminalPrompter:
    """Asks with the words of the door. Ctrl-C is `click.Abort`, and nothing was written then."""

    def ask(self, question: SetupQuestion, *, default: str, hidden: bool) -> str:
        if question.help:
            click.echo(f"\n{wrap_text(question.help)}")
        empty = question.optional or question.generated
        label = f"{question.label} (it is not shown)" if hidden else question.label
        return str(
            click.prompt(
                f"{label}, or nothing" if empty and not default else label,
                default=default if default or empty else None,
                show_default=bool(default),
                hide_input=hidden,
            )
        ).strip()

    def confirm(self, question: str, *, default: bool = True) -> bool:
        return click.confirm(question, default=default)


# MERGED holdfast.cli.platforms.door_answers: What is to be set of an account: as options say it, as it stands, or as a person answers.
_SECRET_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)|file:.+")
_GENERATED_SECRET_BYTES = 32  # bytes of a secret that is made by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSettings:
    """What can be known without asking anybody."""

    current: Mapping[str, Any]  # the account's table, as it is
    environ: Mapping[str, str]  # of this shell
    dotenv: Mapping[str, str]  # what `.env` has
    reserved_variables: frozenset[str]  # the variables that other accounts refer to


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountAnswers:
    """`values` are by the key in the account's table, `secrets` by the variable of `.env`."""

    values: dict[str, TomlValue] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)


class AccountQuestionnaire:
    """Owns the answers on their way. `person` None: nobody is there to be asked."""

    def __init__(
        self,
        plugin: PlatformPlugin[Any],
        account: str,
        known: KnownSettings,
        *,
        prompter: Prompter | None,
    ) -> None:
        self._plugin = plugin
        self._account = account
        self._known = known
        self._prompter = prompter
        self._answers = AccountAnswers()
        # Every key that has an answer, in words; what stands already is one.
        self._answer_texts = {
            question.key: _value_text(standing)
            for question in plugin.setup_questions
            if (standing := self._current_value(question.key)) is not None
        }

    def collect(self, options: Mapping[str, str]) -> AccountAnswers:
        """What is given goes before everything else; a key that nobody asks for may be given too.
        Raises for what is missing, and for a secret that is written out."""
        for question in self._plugin.setup_questions:
            if question.key in options:
                self._set_from_option(question.key, options[question.key])
            elif self._answer_texts.get(question.skip_if):
                continue
            elif question.secret:
                self._ask_secret(question)
            else:
                self._ask(question)
        asked = {question.key for question in self._plugin.setup_questions}
        for key, text in options.items():
            if key not in asked:
                self._set_from_option(key, text)
        return self._answers

    def _set_from_option(self, key: str, text: str) -> None:
        if not is_secret_key(key):
            self._set_value(key, self._parse(key, text))
            return
        reference = _SECRET_REFERENCE.fullmatch(text)
        if reference is None:
            raise HoldfastError(
                f"--set {key}: a secret on the command line is read by others. Put it into a "
                f"variable or a file, and say --set {key}=env:NAME or --set {key}=file:PATH."
            )
        if (name := reference[1]) is not None:
            self._read_variable(key, name)
        self._set_reference(key, text)

    def _read_variable(self, key: str, name: str) -> None:
        value = self._known.environ.get(name, "").strip()
        if value:
            self._answers.secrets[name] = Secret(value)
        elif not self._known.dotenv.get(name):
            raise HoldfastError(f"--set {key}: {name} is not set, in this shell or in .env.")

    def _ask_secret(self, question: SetupQuestion) -> None:
        key = question.key
        # Where a secret itself was written into the table, it is not shown, and is replaced.
        stands = _SECRET_REFERENCE.fullmatch(str(self._current_value(key) or ""))
        if stands is not None and not self._wants_new_secret(question, stands[0]):
            return
        variable = (stands[1] if stands else None) or self._variable_name(question)
        value = "" if stands else self._existing_secret(variable)
        value = value or self._prompt(question, hint=f"--set {key}=env:{variable}")
        if not value and question.generated:
            value = secrets.token_urlsafe(_GENERATED_SECRET_BYTES)
        if not value:
            return
        if self._known.environ.get(variable, value) != value:
            # The environment goes before .env, and would hide the new secret behind the old.
            variable = f"{variable}_HOLDFAST"
        self._answers.secrets[variable] = Secret(value)
        self._set_reference(key, f"env:{variable}")

    def _set_reference(self, key: str, reference: str) -> None:
        self._answer_texts[key] = self._answers.values[key] = reference

    def _wants_new_secret(self, question: SetupQuestion, current: str) -> bool:
        if self._prompter is None:
            return False
        asked = f"{question.label} is {current} already; keep that?"
        return not self._prompter.confirm(asked)

    def _existing_secret(self, variable: str) -> str:
        value = self._known.environ.get(variable) or self._known.dotenv.get(variable) or ""
        asked = f"{variable} holds a value already; use that?"
        if value and (self._prompter is None or self._prompter.confirm(asked)):
            return value.strip()
        return ""

    def _ask(self, question: SetupQuestion) -> None:
        standing = self._current_value(question.key)
        if self._prompter is None and standing is not None:
            return
        offered = self._default_text(question) if standing is None else _value_text(standing)
        if self._prompter is None:
            text = offered or self._prompt(question, hint=f"--set {question.key}=…")
            if text:
                self._set_value(question.key, self._parse(question.key, text))
            return
        while True:
            text = self._prompter.ask(question, default=offered, hidden=False)
            if not text:
                return
            try:
                self._set_value(question.key, self._parse(question.key, text))
            except HoldfastError as error:
                click.echo(click.style(str(error), fg="red"))
            else:
                return

    def _prompt(self, question: SetupQuestion, *, hint: str) -> str:
        if self._prompter is not None:
            return self._prompter.ask(question, default="", hidden=question.secret)
        if question.optional or question.generated:
            return ""
        raise click.UsageError(
            f"{question.label} is missing, and nobody is here to be asked: say {hint}."
            + (f" {question.help}" if question.help else "")
        )

    def _parse(self, key: str, text: str) -> TomlValue:
        node = self._type_of(key)
        try:
            value: TomlValue = text if node is None else parse_value(unwrap_optional(node)[0], text)
        except ValueError:
            assert node is not None, "a text may be anything"
            raise HoldfastError(f"{key} = {text!r} is not {describe(node)}.") from None
        return value

    def _set_value(self, key: str, value: TomlValue) -> None:
        """What is so anyway is not written down."""
        self._answer_texts[key] = _value_text(value)
        if self._current_value(key) is None and value == self._default_value(key):
            return
        self._answers.values[key] = value

    def _default_text(self, question: SetupQuestion) -> str:
        return re.sub(
            r"\{([\w.]+)\}", lambda at: self._answer_texts.get(at[1], ""), question.default
        )

    def _current_value(self, key: str) -> Any:
        """None: the table has no such key."""
        found: Any = self._known.current
        for part in key.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def _variable_name(self, question: SetupQuestion) -> str:
        name = question.variable or f"{self._plugin.name}_{question.key}"
        if self._account != DEFAULT_ACCOUNT:
            name = f"{name}_{self._account}"
        name = re.sub(r"\W", "_", name, flags=re.ASCII).upper()
        while name in self._known.reserved_variables:  # two accounts would have one secret
            name += "_"
        return name

    def _type_of(self, key: str) -> Node | None:
        """The kind of a key; None: its door knows none of that name, as the check will say."""
        node: Node | None = plugin_schema(self._plugin)
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

    def _default_value(self, key: str) -> Any:
        """What holds where nothing is written."""
        for each in plugin_schema(self._plugin).fields:
            if each.name == key:
                return list(each.default) if isinstance(each.default, tuple) else each.default
        return None


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

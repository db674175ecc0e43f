"""The settings of a new account: from options, from the current file, or asked at the terminal."""

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
from holdfast.config.toml_edit import TomlValue
from holdfast.config.validation import Node, describe, unwrap_optional
from holdfast.core.config.settings import DEFAULT_ACCOUNT, is_secret_key
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.platform_plugin import PlatformPlugin, SetupQuestion
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import _


class Prompter(Protocol):
    """Asks the user; the tests answer in place of a terminal."""

    def ask(self, question: SetupQuestion, *, default: str, hidden: bool) -> str:
        """The answer; "" only where it may be left empty."""
        ...

    def confirm(self, question: str, *, default: bool = True) -> bool: ...


class TerminalPrompter:
    """Asks with the texts of the plugin. Ctrl-C is `click.Abort`, and nothing was written then."""

    def ask(self, question: SetupQuestion, *, default: str, hidden: bool) -> str:
        if question.help:
            click.echo(f"\n{wrap_text(_(question.help))}")
        empty = question.optional or question.generated
        label = _(question.label)
        if hidden:
            label = _("{label} (your input is not shown)").format(label=label)
        if empty and not default:
            label = _("{label} (optional)").format(label=label)
        return str(
            click.prompt(
                label,
                default=default if default or empty else None,
                show_default=bool(default),
                hide_input=hidden,
            )
        ).strip()

    def confirm(self, question: str, *, default: bool = True) -> bool:
        return click.confirm(question, default=default)


_SECRET_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)|file:.+")
_GENERATED_SECRET_BYTES = 32  # of a random secret


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSettings:
    """What is known before the first question."""

    current: Mapping[str, Any]  # the account's table in the file
    environ: Mapping[str, str]  # of this shell
    dotenv: Mapping[str, str]  # the variables of `.env`
    reserved_variables: frozenset[str]  # other accounts refer to these variables


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountAnswers:
    """`values` are by the key in the account's table, `secrets` by the variable of `.env`."""

    values: dict[str, TomlValue] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)


class AccountQuestionnaire:
    """Owns the answers while they are collected. `prompter` None: there is no terminal."""

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
        # Every key that has an answer, as text; the current values count as answers.
        self._answer_texts = {
            question.key: _value_text(current)
            for question in plugin.setup_questions
            if (current := self._current_value(question.key)) is not None
        }

    def collect(self, options: Mapping[str, str]) -> AccountAnswers:
        """Options take precedence; they may also set keys that no question asks for. Raises for
        a missing setting, and for a secret that is written out."""
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
                "--set {key}: other users can read a secret on the command line. Put it into a "
                "variable or a file, and write --set {key}=env:NAME or --set {key}=file:PATH.",
                key=key,
            )
        if (name := reference[1]) is not None:
            self._read_variable(key, name)
        self._set_reference(key, text)

    def _read_variable(self, key: str, name: str) -> None:
        value = self._known.environ.get(name, "").strip()
        if value:
            self._answers.secrets[name] = Secret(value)
        elif not self._known.dotenv.get(name):
            raise HoldfastError(
                "--set {key}: {variable} is set neither in this shell nor in .env. Set it first.",
                key=key,
                variable=name,
            )

    def _ask_secret(self, question: SetupQuestion) -> None:
        key = question.key
        # A secret that was written into the table itself is not shown; it is replaced.
        current = _SECRET_REFERENCE.fullmatch(str(self._current_value(key) or ""))
        if current is not None and not self._wants_new_secret(question, current[0]):
            return
        variable = (current[1] if current else None) or self._variable_name(question)
        value = "" if current else self._existing_secret(variable)
        value = value or self._prompt(question, hint=f"--set {key}=env:{variable}")
        if not value and question.generated:
            value = secrets.token_urlsafe(_GENERATED_SECRET_BYTES)
        if not value:
            return
        if self._known.environ.get(variable, value) != value:
            # The environment takes precedence over .env: its old value would hide the new one.
            variable = f"{variable}_HOLDFAST"
        self._answers.secrets[variable] = Secret(value)
        self._set_reference(key, f"env:{variable}")

    def _set_reference(self, key: str, reference: str) -> None:
        self._answer_texts[key] = self._answers.values[key] = reference

    def _wants_new_secret(self, question: SetupQuestion, current: str) -> bool:
        if self._prompter is None:
            return False
        return not self._prompter.confirm(
            _("{label} is already set to {current}. Keep it?").format(
                label=_(question.label), current=current
            )
        )

    def _existing_secret(self, variable: str) -> str:
        value = self._known.environ.get(variable) or self._known.dotenv.get(variable) or ""
        text = _("{variable} already has a value. Use it?").format(variable=variable)
        if value and (self._prompter is None or self._prompter.confirm(text)):
            return value.strip()
        return ""

    def _ask(self, question: SetupQuestion) -> None:
        current = self._current_value(question.key)
        if self._prompter is None and current is not None:
            return
        default = self._default_text(question) if current is None else _value_text(current)
        if self._prompter is None:
            text = default or self._prompt(question, hint=f"--set {question.key}=…")
            if text:
                self._set_value(question.key, self._parse(question.key, text))
            return
        while True:
            text = self._prompter.ask(question, default=default, hidden=False)
            if not text:
                return
            try:
                self._set_value(question.key, self._parse(question.key, text))
            except HoldfastError as error:
                click.echo(click.style(error.for_person(), fg="red"))
            else:
                return

    def _prompt(self, question: SetupQuestion, *, hint: str) -> str:
        if self._prompter is not None:
            return self._prompter.ask(question, default="", hidden=question.secret)
        if question.optional or question.generated:
            return ""
        text = _("{label} is missing, and without a terminal it cannot be asked for. Use {hint}.")
        text = text.format(label=_(question.label), hint=hint)
        raise click.UsageError(f"{text} {_(question.help)}" if question.help else text)

    def _parse(self, key: str, text: str) -> TomlValue:
        node = self._type_of(key)
        try:
            value: TomlValue = text if node is None else parse_value(unwrap_optional(node)[0], text)
        except ValueError:
            assert node is not None, "a text may be anything"
            raise HoldfastError(
                "{key}: {text!r} is not allowed. Allowed: {allowed}.",
                key=key,
                text=text,
                allowed=describe(node),
            ) from None
        return value

    def _set_value(self, key: str, value: TomlValue) -> None:
        """A value that equals the default is not written."""
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
        while name in self._known.reserved_variables:  # else two accounts would share one secret
            name += "_"
        return name

    def _type_of(self, key: str) -> Node | None:
        """The type of a key; None: the plugin has no such key, which the check reports."""
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
        """The default of a key."""
        for each in plugin_schema(self._plugin).fields:
            if each.name == key:
                return list(each.default) if isinstance(each.default, tuple) else each.default
        return None


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

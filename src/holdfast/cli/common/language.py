"""The language of the command line: chooses it, and translates help and click's own texts.

English loads no catalogue.
"""

import gettext
import re
from collections.abc import Sequence
from copy import copy
from inspect import cleandoc
from typing import TypeVar

import click

from holdfast.config.language import preferred_language
from holdfast.core.errors import HoldfastError, without_errno
from holdfast.core.text.translation import ENGLISH, N_, _, _n, current_language, set_catalogue
from holdfast.system.languages import catalogue_for

_Command = TypeVar("_Command", bound=click.Command)


def choose_language(arguments: Sequence[str]) -> None:
    """Sets the language for the whole process: `gateway.language` of the home, else the locale."""
    catalogue = catalogue_for(preferred_language(_home_option(arguments)))
    if catalogue is ENGLISH:
        return
    set_catalogue(catalogue)
    # click looks up its own texts (`Usage:`, errors of options) by `gettext.gettext`, which calls
    # these two.
    vars(gettext).update(
        dgettext=lambda _domain, message: _(message),
        dngettext=lambda _domain, singular, plural, n: _n(singular, plural, n),
    )


def _home_option(arguments: Sequence[str]) -> str | None:
    """The value of --home; click parses the arguments later, and not before a command is loaded."""
    for index, argument in enumerate(arguments):
        if argument == "--home":
            return next(iter(arguments[index + 1 :]), None)
        if argument.startswith("--home="):
            return argument.removeprefix("--home=")
    return None


def translate_command(command: _Command) -> _Command:
    """A copy of a command with its help in the current language; in English, the command itself."""
    if current_language() == ENGLISH.language:
        return command
    translated = copy(command)
    translated.help = command.help and translate_help(command.help)
    translated.short_help = command.short_help and _(command.short_help)
    translated.epilog = command.epilog and translate_help(command.epilog)
    translated.params = [_translate_parameter(each) for each in command.params]
    vars(translated)["_help_option"] = None  # click keeps --help with the text of its first use
    if isinstance(translated, click.Group):
        translated.commands = {
            name: translate_command(each) for name, each in translated.commands.items()
        }
    return translated


def _translate_parameter(parameter: click.Parameter) -> click.Parameter:
    if not isinstance(parameter, click.Option | click.Argument) or not parameter.help:
        return parameter
    translated = copy(parameter)
    translated.help = _(parameter.help)
    return translated


def translate_help(text: str) -> str:
    """A help text, each paragraph of which is a text of the catalogue."""
    return "\n\n".join(f"{start}{_(paragraph)}" for start, paragraph in split_help(text))


def error_text(error: Exception) -> str:
    """An error in the current language; one that is not ours as it is."""
    return error.for_person() if isinstance(error, HoldfastError) else without_errno(str(error))


_STATE_TEXTS = {
    # of the gateway
    "restarting": N_("restarting"),
    "stopping": N_("stopping"),
    "stopped": N_("stopped"),
    "hanging": N_("hanging"),
    # of turns and sessions
    "idle": N_("idle"),
    "starting": N_("starting"),
    "running": N_("running"),
    "waiting": N_("waiting"),
    "parking": N_("parking"),
    "marked": N_("marked"),
    "parked": N_("parked"),
    "unresumed": N_("not resumed yet"),
    "cut": N_("interrupted"),
    "closing": N_("closing"),
    "ended": N_("ended"),
    "discarded": N_("discarded"),
    # of runs of jobs
    "skipped": N_("skipped"),
    "forgotten": N_("forgotten"),
    # of approvals
    "pending": N_("pending"),
    "approved": N_("approved"),
    "denied": N_("denied"),
    "expired": N_("expired"),
    "undeliverable": N_("undeliverable"),
    "withdrawn": N_("withdrawn"),
    # of subagents
    "waited": N_("awaited"),
    "background": N_("background"),
    # of messages
    "queued": N_("queued"),
    "answered": N_("answered"),
    "merged": N_("merged"),
    "superseded": N_("superseded"),
    "refused": N_("refused"),
    "failed": N_("failed"),
    # kinds of a stop, and who requested it
    "stop": N_("stop"),
    "signal": N_("signal"),
    "restart": N_("restart"),
    "replace": N_("replacement"),
    "crash": N_("crash"),
    "chat": N_("chat"),
    "cli": N_("cli"),
    "page": N_("page"),
    "successor": N_("successor"),
    "nobody": "-",
}


def state_text(state: str) -> str:
    """The state of a gateway, session, turn, message, job run or approval, or the kind of a stop,
    for a person; one that another version reports is shown as it is."""
    return _(_STATE_TEXTS.get(state, "")) or state


def phase_text(phase: str) -> str:
    """The phase of a start or stop for a person. Phases are reported in English, as logs have
    them."""
    if (draining := _DRAINING.fullmatch(phase)) is not None:
        n = int(draining[1])
        return _n("draining: {n} turn", "draining: {n} turns", n).format(n=n)
    return _(phase)


_DRAINING = re.compile(r"draining: (\d+) turns?")


def split_help(text: str) -> list[tuple[str, str]]:
    """The paragraphs of a help text, each with what must not be translated before it.

    A paragraph that click wraps is one line here, so that it stays the same text when only its
    line breaks in the source change.
    """
    paragraphs = []
    for paragraph in cleandoc(text).partition("\f")[0].strip().split("\n\n"):
        if paragraph.startswith(_KEEP_LINES):
            paragraphs.append((_KEEP_LINES, paragraph.removeprefix(_KEEP_LINES)))
        else:
            paragraphs.append(("", " ".join(paragraph.split())))
    return paragraphs


_KEEP_LINES = "\b\n"  # click does not wrap a paragraph that begins so

"""Texts for people are in the language of the context, and errors are in English in logs."""

import asyncio
from typing import ClassVar

import pytest

from holdfast.core.errors import ConnectRefused, HoldfastError
from holdfast.core.text.translation import (
    ENGLISH,
    N_,
    _,
    _n,
    current_language,
    translate_filled,
    use_catalogue,
)


class German:
    language = "de"
    texts: ClassVar = {
        "Nothing waits.": "Nichts wartet.",
        "{file} is not readable.": "{file} ist unlesbar.",
    }

    def gettext(self, message: str, /) -> str:
        return self.texts.get(message, message)

    def ngettext(self, singular: str, plural: str, n: int, /) -> str:
        return "{n} Datei" if n == 1 else "{n} Dateien"


CONSTANT = N_("Nothing waits.")


def test_a_text_is_in_the_language_of_the_context() -> None:
    with use_catalogue(German()):
        assert (_("Nothing waits."), _(CONSTANT)) == ("Nichts wartet.",) * 2
        assert _("Not translated yet.") == "Not translated yet."
        assert _n("{n} file", "{n} files", 3).format(n=3) == "3 Dateien"
        assert current_language() == "de"
    assert _(CONSTANT) == CONSTANT == "Nothing waits."
    assert current_language() == ENGLISH.language
    assert [_n("{n} file", "{n} files", n) for n in (0, 1)] == ["{n} files", "{n} file"]


def test_a_filled_text_is_translated_with_its_values() -> None:
    template = "{file} is not readable."
    with use_catalogue(German()):
        assert (
            translate_filled("a{b}\n.toml is not readable.", template)
            == "a{b}\n.toml ist unlesbar."
        )
        assert translate_filled("a.toml is unreadable.", template) == "a.toml is unreadable."
        assert translate_filled("Nothing waits.", "Nothing waits.") == "Nichts wartet."


async def test_tasks_have_the_language_of_the_task_that_started_them() -> None:
    async def text() -> str:
        return _("Nothing waits.")

    with use_catalogue(German()):
        german = asyncio.create_task(text())
    assert (await german, await text()) == ("Nichts wartet.", "Nothing waits.")


def test_an_error_is_english_in_a_log_and_translated_for_a_person() -> None:
    error = HoldfastError("{file} is not readable.", file="a{b}.toml")
    with use_catalogue(German()):
        assert str(error) == "a{b}.toml is not readable."
        assert error.for_person() == "a{b}.toml ist unlesbar."


def test_an_error_in_the_values_of_another_one_is_translated_with_it() -> None:
    cause = HoldfastError("{file} is not readable.", file="x")
    error = ConnectRefused("Not connected: {cause}", cause=cause, remedy="Wait.")
    with use_catalogue(German()):
        assert error.for_person() == "Not connected: x ist unlesbar."
    assert str(error) == "Not connected: x is not readable."


@pytest.mark.parametrize("message", ["100 % of {these} are kept", "{"])
def test_a_message_without_values_is_taken_as_it_is(message: str) -> None:
    assert str(HoldfastError(message)) == HoldfastError(message).for_person() == message

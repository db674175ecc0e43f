"""Tests that new text is separated from quotes and signatures."""

import pytest

from holdfast.core.text.html import html_to_text
from holdfast.platforms.email.events import split_reply

ANSWERED = """Yes, please.

On Mon, 16 Nov 2026 at 10:02, Bot <bot@example.org> wrote:

> Shall I order it?
> It costs 12 EUR.
"""


def test_the_text_above_a_quoted_mail_is_the_message() -> None:
    written = split_reply(ANSWERED, is_reply=True)
    assert written.text == "Yes, please."
    assert written.quoted == "Shall I order it?\nIt costs 12 EUR."


@pytest.mark.parametrize(
    "attribution",
    [
        "On Monday, 16 November 2026 at 10:02:11 am CET, Bot\n<bot@example.org> wrote:",
        "Am 16.11.26 um 10:02 schrieb Bot:",
        "Le lun. 16 nov. 2026 à 10:02, Bot <bot@example.org> a\nécrit :",
        "On 2026-11-16, the Bot of the house, who is\ncalled so, Bot\n<bot@example.org> wrote:",
    ],
)
def test_the_attribution_line_belongs_to_the_quote(attribution: str) -> None:
    written = split_reply(f"Yes.\n\n{attribution}\n> Shall I?\n", is_reply=True)
    assert (written.text, written.quoted) == ("Yes.", "Shall I?")


def test_a_sentence_before_a_quote_stays() -> None:
    assert split_reply("I mean this:\n> Shall I?\n", is_reply=True).text == "I mean this:"


def test_the_text_below_a_quote_is_the_message() -> None:
    written = split_reply("Bot wrote on 2026-11-16:\n> Shall I?\n\nYes.\n-- \nAnn\n", is_reply=True)
    assert (written.text, written.quoted) == ("Yes.", "Shall I?")


def test_answers_between_quotes_stay_with_what_they_answer() -> None:
    text = "> Which colour?\nred\n> Which size?\nL"
    assert split_reply(text, is_reply=True).text == text


def test_a_quote_of_outlook_is_removed_at_its_heading() -> None:
    text = (
        "Thanks!\n\n________________________________\nFrom: Bot <bot@example.org>\n"
        "Sent: Monday, 16 November 2026 10:02\nTo: Ann\nSubject: Order\n\nShall I order it?\n"
    )
    written = split_reply(text, is_reply=True)
    assert written.text == "Thanks!"
    assert written.quoted.endswith("Shall I order it?")
    german = "Ja.\n\n-----Ursprüngliche Nachricht-----\nVon: Bot\nSoll ich?\n"
    assert split_reply(german, is_reply=True).text == "Ja."


def test_a_forwarded_mail_is_part_of_the_message() -> None:
    text = "Please read:\n\n> From: Bob\n> dinner at eight?\n"
    assert split_reply(text, is_reply=False).text == text.strip()


@pytest.mark.parametrize("sign", ["-- \nAnn\n+49 30 1234", "--\nAnn", "Sent from my iPhone"])
def test_a_signature_is_removed(sign: str) -> None:
    assert split_reply(f"Yes.\n\n{sign}\n", is_reply=False).text == "Yes."


@pytest.mark.parametrize(
    "text",
    [
        "two parts\n--\n" + "line\n" * 20 + "end",
        "Sent from there yesterday",
        "Envoyé le dossier hier",
    ],
)
def test_text_that_only_looks_like_a_signature_stays(text: str) -> None:
    assert split_reply(text, is_reply=False).text == text


def test_a_mail_with_only_a_quote_contains_it() -> None:
    written = split_reply("> Shall I?\n", is_reply=True)
    assert (written.text, written.quoted) == ("", "Shall I?")


def test_a_page_is_the_text_that_its_reader_sees() -> None:
    page = """<html><head><title>no</title><style>p {color: red}</style></head><body>
      <p>Hello&nbsp;<b>Bot</b>,<br>see <a href="https://example.org/x">this</a> and
      <a href="https://example.org">https://example.org</a></p><script>alert(1)</script>
      <ul><li>one</li><li>two</li></ul><pre>a
  b</pre><table><tr><td>1</td><td>2</td></tr></table>
      <blockquote>you said <blockquote>I said</blockquote></blockquote></body>"""
    assert html_to_text(page, with_title=False) == (
        "Hello Bot,\nsee [this](https://example.org/x) and https://example.org\n\n- one\n- two\n\n"
        "a\n  b\n\n1 | 2\n\n> you said\n>\n>> I said"
    )


@pytest.mark.parametrize(
    "page", ["", "<", "<p", "</b></i>", "<blockquote>" * 3000, "<!DOCTYPE", "&#xD800;"]
)
def test_a_broken_page_is_still_a_text(page: str) -> None:
    assert isinstance(html_to_text(page), str)

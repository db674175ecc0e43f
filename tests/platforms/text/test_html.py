"""HTML for Matrix and mail: well formed, of known tags, and its words are what a reader sees."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from tests.platforms.text.markdown_reader import visible_characters, visible_text
from tests.platforms.text.sample_texts import QUICK, anything, markdown

from holdfast.core.text.splitting import split_message
from holdfast.platforms.text import html as email
from holdfast.platforms.text import html as matrix
from holdfast.platforms.text.html import PlainAndHtml

# The tags and attributes that https://spec.matrix.org/latest/client-server-api/#mroommessage-msgtypes
# lets clients show, as far as there is anything here to show with them.
TAGS = {
    "del",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "blockquote",
    "p",
    "a",
    "ul",
    "ol",
    "li",
    "strong",
} | {"em", "code", "hr", "br", "table", "thead", "tbody", "tr", "th", "td", "pre"}
ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "code": {"class"}}
VOID = {"hr", "br"}
SCHEMES = ("https://", "http://", "mailto:")
INLINE = {"a", "strong", "em", "del", "code"}


class Checker(HTMLParser):
    """Reads HTML as strictly as nobody does, and remembers its words."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self._open: list[str] = []
        self._numbers: list[int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES.get(tag, set())
        given = dict(attrs)
        if tag == "a":
            assert (given["href"] or "").lower().startswith(SCHEMES)
            assert "a" not in self._open
        if tag == "p":
            assert not INLINE & set(self._open) and "p" not in self._open
        if tag in ("ul", "ol"):
            self._numbers.append(int(given.get("start") or 1) if tag == "ol" else None)
        if tag == "li":
            assert self._open[-1] in ("ul", "ol")
            self._count()
        if tag not in VOID:
            self._open.append(tag)

    def _count(self) -> None:
        if (number := self._numbers[-1]) is not None:
            self.words.append(f"{number}.")
            self._numbers[-1] = number + 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag in ("ul", "ol"):
            self._numbers.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def done(self) -> str:
        self.close()
        assert not self._open, "something was not closed"
        return "".join(self.words)


def words_of(html: str) -> str:
    checker = Checker()
    checker.feed(html)
    return checker.done()


@QUICK
@given(anything)
def test_no_matrix_message_is_refused(text: str) -> None:
    for part in split_message(text, 300, fits=lambda part: matrix.fits_matrix(part, limit=300)):
        if part.strip():
            shown = matrix.render_matrix(part)
            assert shown.plain.strip() and matrix.fits_matrix(part, limit=300)
            shown.plain.encode()
            words_of(shown.html)


@QUICK
@given(markdown)
def test_both_bodies_are_what_a_reader_of_the_markdown_sees(text: str) -> None:
    shown = matrix.render_matrix(text)
    assert visible_characters(shown.plain) == visible_text(text, addresses=True)
    if shown.html:
        assert visible_characters(words_of(shown.html)) == visible_text(text, addresses=False)


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**b** and *i* and ~~s~~", "<strong>b</strong> and <em>i</em> and <del>s</del>"),
        ("`a<b`", "<code>a&lt;b</code>"),
        ('[s](https://e.org/?a="b)', '<a href="https://e.org/?a=%22b">s</a>'),
        ("two  \nlines", ""),
        ("<b>no</b> *i*", "&lt;b&gt;no&lt;/b&gt; <em>i</em>"),
    ],
)
def test_inline_elements_are_rendered_as_documented(markdown: str, html: str) -> None:
    assert matrix.render_matrix(markdown).html == (f"<p>{html}</p>" if html else "")


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("# Head", "<h1>Head</h1>"),
        ("```py\nx = 1\n```", '<pre><code class="language-py">x = 1\n</code></pre>'),
        ("- a\n  - b\n- [x] c", "<ul><li>a<ul><li>b</li></ul></li><li>☑ c</li></ul>"),
        ("7. a", '<ol start="7"><li>a</li></ol>'),
        ("> a", "<blockquote><p>a</p></blockquote>"),
        (
            "|a|\n|-|\n|1|",
            "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>",
        ),
        ("---", "<hr>"),
    ],
)
def test_block_elements_are_rendered_as_documented(markdown: str, html: str) -> None:
    assert matrix.render_matrix(markdown).html == html


def test_a_mail_without_formatting_has_no_html_and_one_with_it_has_both() -> None:
    assert email.render_email("Dear all,\n\nyes.") == PlainAndHtml(plain="Dear all,\n\nyes.")
    shown = email.render_email("see [this](https://e.org)")
    assert shown.plain == "see this (https://e.org)"
    assert '<p>see <a href="https://e.org">this</a></p>' in shown.html

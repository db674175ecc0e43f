"""Tests rendering to HTML for Matrix and email: well formed, allowed tags, same visible text."""

import pytest
from hypothesis import given
from tests.platforms.text.html_reader import html_text
from tests.platforms.text.markdown_reader import visible_characters, visible_text
from tests.platforms.text.sample_texts import QUICK, anything, markdown

from holdfast.core.text.splitting import split_message
from holdfast.platforms.text import html as email
from holdfast.platforms.text import html as matrix
from holdfast.platforms.text.html import PlainAndHtml


@QUICK
@given(anything)
def test_no_matrix_message_is_refused(text: str) -> None:
    for part in split_message(text, 300, fits=lambda part: matrix.fits_matrix(part, limit=300)):
        if part.strip():
            shown = matrix.render_matrix(part)
            assert shown.plain.strip() and matrix.fits_matrix(part, limit=300)
            shown.plain.encode()
            html_text(shown.html)


@QUICK
@given(markdown)
def test_both_bodies_are_what_a_reader_of_the_markdown_sees(text: str) -> None:
    shown = matrix.render_matrix(text)
    assert visible_characters(shown.plain) == visible_text(text, addresses=True)
    if shown.html:
        assert visible_characters(html_text(shown.html)) == visible_text(text, addresses=False)


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

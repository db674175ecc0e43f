"""Markdown and code as the page shows them, drawn by the browser that will show them."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway

_DRAW = """async (text) => {
  const { html, render } = await import("/page/vendor/preact-htm.module.js");
  const { Markdown } = await import("/page/view/markdown.js");
  const container = document.createElement("div");
  render(html`<${Markdown} text=${text} />`, container);
  for (const extra of container.querySelectorAll("button, figcaption")) extra.remove();
  for (const link of container.querySelectorAll("a")) {
    for (const name of ["title", "target", "rel"]) link.removeAttribute(name);
  }
  for (const node of container.querySelectorAll("pre, .table")) {
    for (const name of ["tabindex", "role", "aria-label", "class"]) node.removeAttribute(name);
  }
  return container.innerHTML;
}"""

CASES = [
    ("plain text", "<p>plain text</p>"),
    ("two\nlines", "<p>two<br>lines</p>"),
    ("a\n\nb", "<p>a</p><p>b</p>"),
    (
        "**bold** and *italic* and ~~gone~~",
        "<p><strong>bold</strong> and <em>italic</em> and <s>gone</s></p>",
    ),
    ("***both***", "<p><strong><em>both</em></strong></p>"),
    ("snake_case_name and 2*3*4", "<p>snake_case_name and 2<em>3</em>4</p>"),
    ("a * b * c", "<p>a * b * c</p>"),
    ("**open and never closed", "<p>**open and never closed</p>"),
    ("`**not bold**`", "<p><code>**not bold**</code></p>"),
    ("``a ` b``", "<p><code>a ` b</code></p>"),
    (r"\*plain\*", "<p>*plain*</p>"),
    ("# One\n## Two ##", "<h3>One</h3><h4>Two</h4>"),
    ("#hashtag", "<p>#hashtag</p>"),
    ("---", "<hr>"),
    ("> quoted\n> **twice**", "<blockquote><p>quoted<br><strong>twice</strong></p></blockquote>"),
    (
        "- a\n- b\n  - c\n- d",
        '<ul><li><span class="line">a</span></li><li><span class="line">b</span><ul><li>'
        '<span class="line">c</span></li></ul></li><li><span class="line">d</span></li></ul>',
    ),
    (
        "3. a\n4. b",
        '<ol start="3"><li><span class="line">a</span></li>'
        '<li><span class="line">b</span></li></ol>',
    ),
    (
        "1. a\n\n   ```sh\n   ls\n   ```\n2. b",
        '<ol start="1"><li><p>a</p><figure><pre><code>ls</code></pre></figure></li>'
        "<li><p>b</p></li></ol>",
    ),
    ("text\n- a", '<p>text</p><ul><li><span class="line">a</span></li></ul>'),
    ("in 2024. it was", "<p>in 2024. it was</p>"),
    (
        "| a | b |\n|:-:|--:|\n| 1 | `x|y` |",
        '<div><table><thead><tr><th class="to-center">a</th>'
        '<th class="to-right">b</th></tr></thead>'
        '<tbody><tr><td class="to-center">1</td><td class="to-right"><code>x|y</code></td></tr>'
        "</tbody></table></div>",
    ),
    ("a | b", "<p>a | b</p>"),
    ("[t](https://x.org/a_(b))", '<p><a href="https://x.org/a_(b)">t</a></p>'),
    (
        "see https://x.org/a_b_c.",
        '<p>see <a href="https://x.org/a_b_c">https://x.org/a_b_c</a>.</p>',
    ),
    ("<https://x.org>", '<p><a href="https://x.org/">https://x.org</a></p>'),
    ("[mail](mailto:a@x.org)", '<p><a href="mailto:a@x.org">mail</a></p>'),
    (
        "[x](javascript:alert(1))",
        '<p><span class="no-link" title="Not a link: its address is not safe">x</span></p>',
    ),
    ("[not a link]", "<p>[not a link]</p>"),
    (
        "a[0](b)",
        '<p>a<span class="no-link" title="Not a link: its address is not safe">0</span></p>',
    ),
    ("![pic](https://x.org/p.png)", '<p><a href="https://x.org/p.png">🖼 pic</a></p>'),
    ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>"),
    ("a<br>b", "<p>a<br>b</p>"),
    ("```\na\n\n  b\n```", "<figure><pre><code>a\n\n  b</code></pre></figure>"),
    ("```\nnever closed", "<figure><pre><code>never closed</code></pre></figure>"),
    ("~~~\n```\n~~~", "<figure><pre><code>```</code></pre></figure>"),
    (
        "```python\nx = 'a'  # why\n```",
        "<figure><pre><code>x = <span class=\"t-string\">'a'</span>  "
        '<span class="t-comment"># why</span></code></pre></figure>',
    ),
    (
        '```json\n{"a": 1}\n```',
        '<figure><pre><code>{<span class="t-key">"a"</span>: <span class="t-number">1</span>}'
        "</code></pre></figure>",
    ),
    (
        "- [x] done\n- [ ] open",
        '<ul><li class="task"><span class="tick" role="img" aria-label="done">☑</span>'
        '<span class="line">done</span></li><li class="task"><span class="tick" role="img" '
        'aria-label="to do">☐</span><span class="line">open</span></li></ul>',
    ),
]


@pytest.fixture(scope="module")
def markdown_visitor(chromium: Any, gateway: SpawnedGateway) -> Iterator[Visitor]:
    visitor = Visitor(chromium.new_context(), gateway)
    visitor.load(login=True)
    yield visitor
    visitor.close()


@pytest.fixture
def markdown_page(markdown_visitor: Visitor) -> Any:
    return markdown_visitor.page


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_markdown_is_drawn(markdown_page: Any, text: str, shown: str) -> None:
    assert markdown_page.evaluate(_DRAW, text).replace(' class="code"', "") == shown


@pytest.mark.parametrize(
    "text",
    [
        "*" * 20_000,
        "[" * 20_000,
        "`" * 9_999 + " " + "`" * 9_998,
        "> " * 5_000 + "x",
        "- " * 5_000 + "x",
        "**a " * 5_000,
        "[a](" * 5_000,
        "_a" * 10_000,
        "|" * 5_000 + "\n" + "|-" * 5_000,
        "<" * 20_000,
        "http://" * 3_000,
        "a\\" * 10_000,
    ],
    ids=["stars", "brackets", "ticks", "quotes", "items", "bolds", "links", "lows", "bars",
         "angles", "addresses", "slashes"],
)  # fmt: skip
def test_no_text_takes_long_to_draw(markdown_visitor: Visitor, text: str) -> None:
    markdown_visitor.page.evaluate(_DRAW, "warm")
    before = markdown_visitor.cpu_seconds()
    markdown_visitor.page.evaluate(_DRAW, text)
    assert markdown_visitor.cpu_seconds() - before < 1.5


def test_code_in_colours_is_the_code(markdown_page: Any) -> None:
    code = (
        "def f(x):\n    '''doc\n    more'''\n    return f\"{x}\" // 0x1F  # \\ \"\n"
        "\n/* a */ `b ${c}` <d>"
    )
    joined = markdown_page.evaluate(
        """async (code) => {
          const { highlight } = await import("/page/highlight.js");
          const names = ["python", "js", "bash", "c", "go", "rust", "sql", "json", "toml", "html",
            "css", "ruby", "diff", "", "nothing"];
          return names.map((name) => highlight(code, name).map(([, text]) => text).join(""));
        }""",
        code,
    )
    assert joined == [code] * 15


def test_a_streaming_text_keeps_the_blocks_it_has_drawn(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    same = visitor.page.evaluate(
        """async () => {
          const { html, render } = await import("/page/vendor/preact-htm.module.js");
          const { Markdown } = await import("/page/view/markdown.js");
          const container = document.createElement("div");
          render(html`<${Markdown} text=${"first\\n\\nsec"} />`, container);
          const first = container.firstChild.firstChild;
          render(html`<${Markdown} text=${"first\\n\\nsecond"} />`, container);
          const kept = first === container.firstChild.firstChild;
          return kept && container.innerText.includes("second");
        }"""
    )
    assert same

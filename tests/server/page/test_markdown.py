"""Markdown and code as the page shows them, drawn by the browser that will show them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.page import showcase
from tests.server.page.accessibility import PHONE
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway

_DRAW = """async (text) => {
  const { html, render } = await import("/page/vendor/preact-htm.module.js");
  const { Markdown } = await import("/page/view/markdown.js");
  const container = document.createElement("div");
  render(html`<${Markdown} text=${text} />`, container);
  for (const extra of container.querySelectorAll("button, figcaption")) extra.remove();
  for (const node of container.querySelectorAll("[dir]")) node.removeAttribute("dir");
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


_WIDE_TABLE = """\
| configuration | throughput | recommendation | remarks |
|---|---:|---|---|
| eelgrass-deployment | 12,345 requests | everything | unconditionally |
"""
_HEBREW = "שלום עולם"
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmM"
    "IQAAAABJRU5ErkJggg=="
)


def say_and_show(visitor: Visitor, *messages: dict[str, Any]) -> None:
    """Opens an imported chat with these messages."""
    body = showcase.import_body(_HEBREW, list(messages), time.time())
    session = visitor.fetch("POST", "/api/v1/sessions/import", data=body).json()["id"]
    visitor.open_chat(session)
    visitor.replies.first.wait_for()


def test_a_table_scrolls_on_a_phone_and_its_words_stay_whole(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, viewport=PHONE)
    say_and_show(visitor, {"type": "assistant", "text": _WIDE_TABLE})
    table = visitor.page.locator(".prose .table")
    assert table.evaluate("node => node.scrollWidth > node.clientWidth")
    for word in ("throughput", "recommendation", "unconditionally"):
        lines = visitor.page.get_by_text(word, exact=True).evaluate(
            """(cell) => {
              const range = document.createRange();
              range.selectNodeContents(cell);
              return range.getClientRects().length;
            }"""
        )
        assert lines == 1, word
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_text_from_right_to_left_is_shown_so_wherever_people_and_agents_write(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    reply = f"{_HEBREW}\n\n- {_HEBREW}\n\n> {_HEBREW}\n\n```\n{_HEBREW}\n```\n\nand English"
    say_and_show(visitor, {"type": "user", "text": _HEBREW}, {"type": "assistant", "text": reply})
    page = visitor.page
    direction = "node => getComputedStyle(node).direction"
    prose = ".reply .prose >"
    for shown in (".message-text", f"{prose} p", f"{prose} ul", f"{prose} blockquote", ".head h1"):
        assert page.locator(shown).first.evaluate(direction) == "rtl", shown
    assert page.locator(".chat-link .title").first.evaluate(direction) == "rtl"
    assert page.locator(".reply pre").evaluate(direction) == "ltr"
    assert page.locator(f"{prose} p").last.evaluate(direction) == "ltr"
    visitor.message_box.fill(_HEBREW)
    assert visitor.message_box.evaluate(direction) == "rtl"


def test_pictures_and_files_of_the_workspace_are_shown_and_linked(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    write = f"echo {_PIXEL} | base64 -d > chart.png; echo kelp > 'the report.txt'"
    call = json.dumps({"command": write})
    visitor.send_and_wait(f"[tool terminal {call}] [then] [text written]")
    session = page.url.rpartition("/")[2]
    page.evaluate(
        """async (session) => {
          const { html, render } = await import("/page/vendor/preact-htm.module.js");
          const { Markdown, Workspace } = await import("/page/view/markdown.js");
          const text = "![a chart](chart.png) ![again](/workspace/chart.png) ![none](gone.png) "
            + "[report](the%20report.txt) [bad](javascript:alert(1)) [up](../state.db) "
            + "![far](https://x.org/a.png)";
          const prose = document.createElement("div");
          prose.id = "drawn";
          document.querySelector(".column").append(prose);
          const drawn = html`<${Markdown} text=${text} />`;
          render(html`<${Workspace.Provider} value=${session}>${drawn}<//>`, prose);
        }""",
        session,
    )
    box = page.locator("#drawn")
    box.get_by_text("🖼 none").wait_for()
    pictures = box.locator("img")
    assert pictures.count() == 2
    loaded = "nodes => nodes.every((node) => node.complete && node.naturalWidth === 1)"
    assert pictures.evaluate_all(loaded)
    with page.expect_download() as download:
        box.get_by_role("link", name="report").click()
    assert Path(download.value.path()).read_text() == "kelp\n"
    assert box.locator(".no-link").all_inner_texts() == ["bad", "up"]
    assert box.get_by_role("link", name="🖼 far").count() == 1

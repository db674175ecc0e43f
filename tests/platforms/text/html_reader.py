"""Reads HTML strictly: checks tags and attributes, and returns the text that a user sees."""

from html.parser import HTMLParser

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


class StrictHtmlReader(HTMLParser):
    """Checks HTML strictly and collects its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
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
            self.texts.append(f"{number}.")
            self._numbers[-1] = number + 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag in ("ul", "ol"):
            self._numbers.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def done(self) -> str:
        self.close()
        assert not self._open, "something was not closed"
        return "".join(self.texts)


def html_text(html: str) -> str:
    """The text of well-formed HTML; raises AssertionError otherwise."""
    reader = StrictHtmlReader()
    reader.feed(html)
    return reader.done()

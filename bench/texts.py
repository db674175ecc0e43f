"""Texts: what it costs to render a reply, beside what its parser alone would take for HTML."""

import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from holdfast.platforms.text import discord, html, irc, layout, slack, telegram, xmpp
from holdfast.platforms.text import html as matrix

_PARAGRAPH = """## What I found

The **first run** took 41 s, the second *only* 12 s: `make test` keeps what it built. See
[the log](https://example.org/logs/41_a) and https://example.org/runs/12 for both.

- `core/` is read once, by two of them
  - and not again
- ~~nobody~~ somebody waits for the lock

```python
def waited(lock: Lock) -> float:
    return lock.taken_at - lock.asked_at
```

| step | s |
|---|---|
| build | 29 |
| test | 12 |

> It was the same last week.

"""
_PLAIN_TEXT = "It went well, and nothing of it needs to be done again before tomorrow. "
SIZES = {"1 kB": 1_000, "20 kB": 20_000}
TARGETS: Mapping[str, Callable[[str], object]] = {
    "telegram": telegram.render,
    "discord": discord.render,
    "slack": slack.render,
    "matrix": matrix.render_matrix,
    "email": html.render_email,
    "irc": irc.render,
    "xmpp": xmpp.render,
    "plain": layout.render_plain,
}


def text_costs(*, rounds: int) -> dict[str, tuple[float, float]]:
    """By what is rendered: milliseconds of the dearest renderer, and of the parser's own HTML. The
    last is a text without marks, as Telegram gets it: it is not parsed at all."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - the gateway's own start has not loaded it

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    found = {}
    for name, size in SIZES.items():
        text = (_PARAGRAPH * (size // len(_PARAGRAPH) + 1))[:size]
        *costs, parsed = _medians([*TARGETS.values(), parser.render], text, rounds=rounds)
        found[name] = max(costs), parsed
    text = (_PLAIN_TEXT * 20)[:1000]
    cost, parsed = _medians([telegram.render, parser.render], text, rounds=10 * rounds)
    found["no marks"] = cost, parsed
    return found


def _medians(
    renderers: Sequence[Callable[[str], object]], text: str, *, rounds: int
) -> list[float]:
    """Milliseconds of CPU of each, the median of some rounds. Each round has all of them, so that
    they meet the same noise, and a text of its own: renderers remember the last."""
    for render in renderers:
        render(text)  # what is loaded when it is first used is no part of this
    times = [[_ms(render, f"{text} {number}") for render in renderers] for number in range(rounds)]
    return [median(column) for column in zip(*times, strict=True)]


def _ms(render: Callable[[str], object], text: str) -> float:
    return timeit.Timer(lambda: render(text), timer=time.process_time).timeit(1) * 1000


if __name__ == "__main__":
    for name, (cost, parsed) in text_costs(rounds=9).items():
        print(f"{name:10} {cost:8.3f} ms   parser {parsed:8.3f} ms   ratio {cost / parsed:.2f}")

"""A long transcript opens at its end at once, and scrolls to its beginning without a jump."""

import json
from typing import Any

import pytest
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway

STEPS = 5_000
OPENS_WITHIN = 0.5  # seconds of a processor: how busy the machine is does not matter
FRAMES = 240


def transcript(steps: int) -> str:
    """A transcript of this many steps: each is a command with its result, every tenth has text."""
    messages: list[dict[str, Any]] = []
    for step in range(steps):
        if step % 100 == 0:
            messages.append({"type": "user", "text": f"question {step}"})
        call = {"id": f"c{step}", "name": "terminal", "arguments": '{"command": "make test"}'}
        text = f"Step **{step}**:\n\n```python\nprint({step})\n```" if step % 10 == 0 else ""
        messages.append({"type": "assistant", "text": text, "calls": [call], "stop": "tool_calls"})
        result = "\n".join(f"line {n} of step {step}" for n in range(10))
        messages.append({"type": "tool", "call_id": f"c{step}", "name": "terminal", "text": result})
    rows = [
        {"seq": seq, "turn_id": None, "at": 1.7e9 + seq, "message": message}
        for seq, message in enumerate(messages, 1)
    ]
    head = {"id": "s", "title": f"{steps} steps"}
    return "\n".join(json.dumps(line) for line in (head, *rows))


_OPEN_CHAT = """async (id) => {
  location.hash = `#/chat/${id}`;
  for (;;) {
    await new Promise(requestAnimationFrame);
    const last = document.querySelectorAll(".step");
    if (last.length > 20) break;
  }
  await new Promise(requestAnimationFrame);
  return document.querySelectorAll(".step").length;
}"""

# As fast as a hand can.
_SCROLL = """async (frames) => {
  const scroller = document.querySelector(".scroller");
  for (let frame = 0; frame < frames; frame += 1) {
    scroller.scrollTop -= 400;
    await new Promise(requestAnimationFrame);
  }
  return document.querySelectorAll(".step").length;
}"""


@pytest.fixture
def long_chat(gateway: SpawnedGateway, visit: Visit) -> tuple[Visitor, str]:
    visitor = visit(gateway, viewport={"width": 1280, "height": 900})
    answer = visitor.fetch("POST", "/api/v1/sessions/import", data=transcript(STEPS))
    return visitor, str(answer.json()["id"])


def test_a_transcript_of_5000_steps_opens_at_once_and_scrolls(
    long_chat: tuple[Visitor, str],
) -> None:
    visitor, session_id = long_chat
    page = visitor.page
    page.evaluate(_OPEN_CHAT, session_id)  # the first time compiles the page's code
    visitor.new_chat()
    before = visitor.cpu_seconds()
    shown = page.evaluate(_OPEN_CHAT, session_id)
    opened = visitor.cpu_seconds()
    loaded = page.evaluate(_SCROLL, FRAMES)
    each = (visitor.cpu_seconds() - opened) / FRAMES
    print(
        f"\nOf 5,000 steps {shown} are opened by {opened - before:.3f} s of work; "
        f"a frame takes {each * 1000:.0f} ms while one scrolls to {loaded}"
    )
    assert shown < 200, "the end of it alone"
    assert opened - before < OPENS_WITHIN
    assert each < 0.06


def test_older_records_load_without_moving_the_visible_ones(
    long_chat: tuple[Visitor, str],
) -> None:
    visitor, session_id = long_chat
    page = visitor.page
    visitor.open_chat(session_id)
    page.locator(".step").first.wait_for()
    first = page.locator(".reply").first.get_attribute("data-seq")
    moved = page.evaluate(
        """async (first) => {
          const scroller = document.querySelector(".scroller");
          for (let [still, height] = [0, 0]; still < 10; height = scroller.scrollHeight) {
            await new Promise(requestAnimationFrame); // until what is drawn has found its height
            still = scroller.scrollHeight === height ? still + 1 : 0;
          }
          scroller.scrollTop = 700;
          await new Promise(requestAnimationFrame);
          const seen = (node) => node.getBoundingClientRect().top > 300;
          const read = [...document.querySelectorAll("[data-seq]")].find(seen);
          const before = read.getBoundingClientRect().top;
          while (document.querySelector(".reply").dataset.seq === first) {
            await new Promise(requestAnimationFrame);
          }
          for (let n = 0; n < 5; n += 1) await new Promise(requestAnimationFrame);
          return Math.abs(read.getBoundingClientRect().top - before);
        }""",
        first,
    )
    assert moved < 40


def test_a_streamed_word_draws_nothing_but_the_running_step(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("[text something to leave alone]")
    visitor.page.evaluate(
        """() => {
          window.touched = 0;
          new MutationObserver((changes) => {
            for (const { target } of changes) {
              const node = target.nodeType === 1 ? target : target.parentElement;
              const settled = ".user-message:not(.waiting), .reply:not(.live)";
              if (node.closest(settled)) window.touched += 1;
            }
          }).observe(document.querySelector(".column"),
            { subtree: true, childList: true, characterData: true, attributes: true });
        }"""
    )
    words = " ".join(str(n) for n in range(2000))
    visitor.send(f"[delay 0.05] [text {words}]")
    visitor.page.locator(".reply.live").get_by_text("0 1 2 3").wait_for()
    assert visitor.page.evaluate("window.touched") == 0
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".stop").wait_for(state="hidden")

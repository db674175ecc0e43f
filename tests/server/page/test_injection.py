"""Text of users, models, tools and files is shown and never acts.

The fixture `visit` checks that no dialog opened, no policy was violated and no other host got a
request.
"""

import base64
import json
import re
from typing import Any

from tests.server.page.payloads import FILE_NAMES, PAYLOADS
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway

# Finds every element that could act, and text that became markup.
_SUSPECTS = """() => {
  const tags = new Set(["SCRIPT", "IFRAME", "OBJECT", "EMBED", "BASE", "META", "STYLE", "LINK",
    "VIDEO", "AUDIO", "MATH", "MARQUEE", "TEMPLATE", "FORM", "FOREIGNOBJECT", "ANIMATE", "X"]);
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const composer = node.closest(".composer");
    if (tags.has(node.tagName.toUpperCase()) && !composer) found.push(node.outerHTML);
    for (const { name, value } of node.attributes) {
      if (/^on|^(srcdoc|formaction|ping|xlink:href|style)$/i.test(name)
          && !(name === "style" && (composer || node.matches(".chunk")))) {
        found.push(node.outerHTML);
      }
      if (["href", "src"].includes(name)) {
        const scheme = new URL(value, location.href).protocol;
        const image = name === "src" && /^data:image\\//.test(value);
        if (!["http:", "https:", "mailto:"].includes(scheme) && !image) found.push(value);
      }
    }
    if (node.tagName === "A" && node.origin !== location.origin
        && !(node.target === "_blank" && /noopener/.test(node.rel))) found.push(node.outerHTML);
  }
  return found;
}"""

# Approvals are forms, and a style draws a bar at its position.
_SUSPECTS_ON_THE_DASHBOARD = _SUSPECTS.replace('"FORM", ', "").replace("|style)", ")")


def records(payload: str) -> list[dict[str, Any]]:
    """Puts a payload into every field of a transcript."""
    call = {"id": f"call {payload}", "name": payload, "arguments": payload}
    terminal_call = {
        "id": f"told {payload}",
        "name": "terminal",
        "arguments": json.dumps({"command": payload}),
    }
    return [
        {
            "type": "user",
            "text": payload,
            "speaker": payload,
            "note": payload,
            "images": [{"type": "image", "media_type": f"image/{payload}", "data": "AAAA"}],
        },
        {
            "type": "assistant",
            "text": payload,
            "reasoning": [{"text": payload}],
            "calls": [call, terminal_call],
        },
        {"type": "tool", "call_id": call["id"], "name": payload, "text": payload},
        {
            "type": "tool",
            "call_id": terminal_call["id"],
            "name": payload,
            "text": payload,
            "outcome": "error",
        },
        {"type": "note", "text": f"{payload} {payload * 3}"},
        {"type": "assistant", "text": f"a line\n\n> {payload}\n\n1. {payload}"},
    ]


def import_session(visitor: Visitor, title: str, messages: list[dict[str, Any]]) -> str:
    head = {"id": "s", "title": title}
    rows = [
        {"seq": seq, "turn_id": None, "at": 1.7e9 + seq, "message": message}
        for seq, message in enumerate(messages, 1)
    ]
    body = "\n".join(json.dumps(line) for line in (head, *rows))
    answer = visitor.fetch("POST", "/api/v1/sessions/import", data=body)
    return str(answer.json()["id"])


def unfold(visitor: Visitor) -> None:
    """Opens everything that unfolds, and passes the pointer over it."""
    visitor.page.evaluate(
        """async () => {
          for (const fold of document.querySelectorAll("summary")) fold.click();
          await new Promise((done) => setTimeout(done, 100));
          for (const node of document.querySelectorAll(".column *, .sidebar *, .views *")) {
            for (const name of ["pointerover", "mouseover", "mousemove", "focus"]) {
              node.dispatchEvent(new Event(name, { bubbles: true }));
            }
          }
        }"""
    )
    visitor.page.wait_for_timeout(150)


def test_a_transcript_of_payloads_is_shown_as_text(gateway: SpawnedGateway, visit: Visit) -> None:
    assert len(PAYLOADS) >= 60
    visitor = visit(gateway)
    messages = [message for payload in PAYLOADS for message in records(payload)]
    session_id = import_session(visitor, PAYLOADS[0], messages)
    visitor.open_chat(session_id)
    visitor.replies.first.wait_for()
    while visitor.page.locator(".older").count():
        visitor.page.locator(".scroller").evaluate("node => node.scrollTop = 0")
        visitor.page.wait_for_timeout(50)
    words = visitor.page.locator(".user-message .message-text").all_text_contents()
    assert words == list(PAYLOADS)
    unfold(visitor)
    assert visitor.page.evaluate(_SUSPECTS) == []


def test_payloads_from_a_streaming_model_and_a_real_tool_do_nothing(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    everything = "\n\n".join(PAYLOADS)
    echo = base64.b64encode(everything.encode()).decode()
    gateway.model.script(
        {
            "match": "say it all",
            "text": everything,
            "reasoning": everything[:2000],
            "calls": [{"name": "terminal", "arguments": {"command": f"echo {echo} | base64 -d"}}],
        },
        {"match": "say it all", "text": everything},
    )
    visitor.send_and_wait("say it all")
    unfold(visitor)
    visitor.page.locator(".step .output").wait_for()
    assert visitor.page.evaluate(_SUSPECTS) == []


def test_payloads_in_titles_search_results_files_and_processes_do_nothing(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    sessions = [
        import_session(visitor, payload[:200], records(payload)) for payload in PAYLOADS[::3]
    ]
    script = "".join(f"touch -- {_quoted(name)}; " for name in FILE_NAMES)
    gateway.model.script(
        {"match": "make files", "calls": [{"name": "terminal", "arguments": {"command": script}}]},
        {
            "match": "make files",
            "calls": [
                {
                    "name": "process",
                    "arguments": {"action": "start", "command": f": {_quoted(name)}; sleep 60"},
                }
                for name in FILE_NAMES[:6]
            ],
        },
        {"match": "make files", "text": "made"},
    )
    visitor.send_and_wait("make files")
    page.get_by_role("button", name="Files").first.click()
    page.locator(".files a").first.wait_for()
    assert page.locator(".files a").count() == len(set(FILE_NAMES))
    assert page.evaluate(_SUSPECTS) == []
    page.get_by_role("button", name="Processes").first.click()
    page.locator(".processes li").first.wait_for()
    unfold(visitor)
    assert page.evaluate(_SUSPECTS) == []

    page.get_by_label("Search chats and messages").fill("alert")
    page.locator(".search-result").first.wait_for()
    unfold(visitor)
    assert page.evaluate(_SUSPECTS) == []
    visitor.open_chat(sessions[3])
    page.locator(".user-message .speaker").first.wait_for()  # those before have none
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.locator("dialog").wait_for()
    assert page.evaluate(_SUSPECTS.replace('"FORM", ', "")) == []


def test_payloads_do_nothing_on_the_dashboard(gateway: SpawnedGateway, visit: Visit) -> None:
    """Payloads in titles, commands, jobs, log lines and audit rows."""
    visitor = visit(gateway)
    page = visitor.page
    everything = " ".join(PAYLOADS)
    job = {
        "name": PAYLOADS[0],
        "when": "every day at 9",
        "text": everything[:2000],
        "to": "nowhere",
    }
    made = visitor.fetch("POST", "/api/v1/jobs", data=job).json()["id"]
    command = f"sudo echo {_quoted(everything)}"
    gateway.model.script(
        {"match": "onerror", "calls": [{"name": "terminal", "arguments": {"command": command}}]}
    )
    visitor.send(everything)
    page.get_by_role("form", name="Approval").wait_for()
    session = page.url.rpartition("/")[2]
    turn = visitor.fetch("GET", f"/api/v1/sessions/{session}/turns").json()["turns"][0]["id"]
    line = {"number": 1, "time": "2026-05-02T09:14:03.000+00:00", "level": "error"}
    line |= {"logger": everything, "message": everything, "exception": everything}
    lines = [{**line, "fields": {PAYLOADS[0]: everything, "session": everything}}]
    log = {"lines": lines, "more": False, "newest": 1}
    page.route("**/api/v1/logs?*", lambda route: route.fulfill(json=log))
    views = f"sessions sessions/{session} turns turns/{turn} approvals processes outbox/state=all"
    for view in f"{views} jobs jobs/{made} logs audit".split():
        page.goto(f"{gateway.address}/#/{view}")
        page.locator(".board .quiet-text", has_text="Loading").first.wait_for(state="detached")
        page.locator(
            ".views .card, .sessions .body, .transcript .user-message, .log-line"
        ).first.wait_for()
        if view == "logs":
            page.locator(".log-line button").click()
        if page.locator(".board summary").count():
            unfold(visitor)
        assert page.evaluate(_SUSPECTS_ON_THE_DASHBOARD) == [], view
    visitor.open_chat("%")  # no encoding of anything
    page.get_by_text("the address is incomplete").wait_for()
    visitor.fetch("POST", f"/api/v1/sessions/{session}/stop")
    visitor.fetch("DELETE", f"/api/v1/jobs/{made}")


def test_a_page_that_an_agent_wrote_is_saved_and_not_opened(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    command = "echo '<script>alert(1)</script>' > page.html"
    gateway.model.script(
        {"match": "a page", "calls": [{"name": "terminal", "arguments": {"command": command}}]},
        {"match": "a page", "text": "there"},
    )
    visitor.send_and_wait("a page")
    session_id = visitor.page.url.rpartition("/")[2]
    path = f"/api/v1/sessions/{session_id}/files?path=page.html"
    headers = visitor.fetch("GET", path).headers
    assert headers["content-disposition"].startswith("attachment")
    assert "sandbox" in headers["content-security-policy"]
    assert not re.search("html|xml", headers["content-type"])


def test_the_page_allows_no_inline_script_and_no_frame_around_it(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    policy = visitor.fetch("GET", "/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "'\\''") + "'"

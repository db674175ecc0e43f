"""docs/simulated.md: every option and fault there is, and programs that run."""

import asyncio
import socket
import subprocess
import sys

from tests.support.doc_pages import REPO, Pages

from holdfast.testing.simulated.events import Faults, SayRequest
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService


def test_the_page_has_every_option_and_no_other(page: Pages) -> None:
    documented = {name for name in page("docs/simulated.md").named() if name.startswith("--")}
    program = [sys.executable, "-m", "holdfast.testing.simulated", "--help"]
    helped = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    words = helped.replace("[", " ").replace(",", " ").replace("]", " ").split()
    assert documented == {word for word in words if word.startswith("--")} - {"--help"}


def test_the_page_has_every_fault_and_no_other(page: Pages) -> None:
    documented = set(page("docs/simulated.md").named())
    assert {name for name in documented if not name.startswith("--") and " " not in name} == set(
        Faults.__struct_fields__
    )


def test_a_taken_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        program = [sys.executable, "-m", "holdfast.testing.simulated", "--port", port]
        refused = subprocess.run(program, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"127.0.0.1:{port} cannot be listened on: ")
    assert "Traceback" not in refused.stderr


async def test_a_bot_made_from_the_page_answers_whatever_goes_wrong() -> None:
    """G2, I2: every route of a bot, and the faults that it meets on the way."""
    service = ChatService()
    async with serve(service) as base_url:
        program = (sys.executable, "-W", "error", str(REPO / "examples/echo.py"), base_url)
        bot = await asyncio.create_subprocess_exec(*program)
        try:
            service.set_faults(Faults(floods=1, retry_after=0.05, duplicates=1))
            service.say(SayRequest(chat="c", user="ann", text="one"))
            await service.wait_for_ledger(sent=1, edits=0, wait=30)
            service.set_faults(Faults(lost_receipts=1))
            service.say(SayRequest(chat="c", user="ann", text="two"))
            ledger = await service.wait_for_ledger(sent=3, edits=0, wait=30)
        finally:
            bot.kill()
            await bot.wait()
    sent = [(each.outgoing.text, each.outgoing.maybe_repeated) for each in ledger.sent]
    assert sent == [("one", False), ("two", False), ("two", True)]


def test_the_program_of_the_page_runs(page: Pages) -> None:
    """G2: what is given twice is accepted once."""
    [block] = [block for block in page("docs/simulated.md").blocks if block.language == "python"]
    program = [sys.executable, "-W", "error", "-c", block.text]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=100, check=True)
    assert ran.stdout == "2 handed over, 1 accepted\n"

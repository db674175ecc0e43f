"""docs/webhook.md: each file on it loads, and its commands and its receiver run as they stand."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest
from tests.support.doc_pages import Page, Pages
from tests.support.fork_server import GATEWAY, fork_process

from holdfast.config import load
from holdfast.platforms.webhook.plugin import SIGNATURE_HEADERS
from holdfast.platforms.webhook.receiver import hook_path

SECRETS = {
    "ALERTS_TOKEN": "a token of the alerts: 5be1f09c",
    "GITHUB_WEBHOOK_SECRET": "It's a Secret to Everybody",
    "DEPLOYS_TOKEN": "a token of the deploys: 1f09c5be",
    "TELEGRAM_BOT_TOKEN": "123456:one",
    "WEBHOOK_SECRET": "whsec_bm90IGEgc2VjcmV0IG9mIGFueWJvZHk=",
}


@pytest.fixture
def webhook_page(page: Pages) -> Page:
    return page("docs/webhook.md")


def blocks(webhook_page: Page, language: str) -> list[str]:
    return [each.text for each in webhook_page.blocks if each.language == language]


def test_every_file_on_the_page_loads(webhook_page: Page, tmp_path: Path) -> None:
    files = blocks(webhook_page, "toml")
    assert len(files) == 5
    for number, text in enumerate(files):
        home = tmp_path / str(number)
        home.mkdir(mode=0o700)
        (home / "holdfast.toml").write_text(text)
        assert "webhook" in load(home, SECRETS).settings.platforms


def test_the_page_has_every_scheme_with_its_header_and_the_path(webhook_page: Page) -> None:
    rows = webhook_page.named()
    headers = {name: rows[name][1].split("`")[1] for name in SIGNATURE_HEADERS}
    assert headers == SIGNATURE_HEADERS
    assert f"https://bot.example.org{hook_path('default', 'github')}" in webhook_page.text


@contextmanager
def running_receiver(program: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run the receiver of the page."""
    text = program.replace("9100", str(port))
    environ = {**os.environ, **SECRETS}
    with subprocess.Popen([sys.executable, "-c", text], env=environ, stdout=PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


@contextmanager
def running_gateway(home: Path, config: str) -> Iterator[str]:
    """The address of a gateway with that configuration."""
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text(config)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_MODEL_PROVIDER": "demo",
        **SECRETS,
    }
    process = fork_process(GATEWAY, "run", "--port", "0", env=environ, stderr=DEVNULL, text=True)
    assert process.stdout is not None
    try:
        greeting = process.stdout.readline()
        assert "listens on" in greeting, "the gateway did not start"
        yield greeting.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)


def test_the_commands_of_the_page_are_accepted_and_its_receiver_prints_the_answers(
    webhook_page: Page, tmp_path: Path, free_port: int
) -> None:
    """G1, G2, I2: over a real listener, with curl, from the post to the answer."""
    alerts, github = blocks(webhook_page, "toml")[:2]
    ours = f"""[platforms.webhook]
url = "http://127.0.0.1:{free_port}/"
allow_private = true
secret = "env:WEBHOOK_SECRET"
"""
    (program,), (alert, issue) = blocks(webhook_page, "python"), blocks(webhook_page, "sh")
    with (
        running_receiver(program, free_port) as receiver,
        running_gateway(tmp_path / "home", ours + alerts + github) as address,
    ):
        first, again, signed = (post(command, address) for command in (alert, alert, issue))
        assert first == json.loads(blocks(webhook_page, "json")[0])
        assert again == {"status": "duplicate", "id": "alert-1"}
        assert signed["status"] == "accepted" and re.fullmatch("[0-9a-f]{64}", signed["id"])
        assert receiver.stdout is not None
        unanswered = {"alerts", "github"}
        while unanswered:
            line = receiver.stdout.readline()
            assert line, "the receiver has ended"
            unanswered.discard(line.partition(":")[0])


def post(command: str, address: str) -> dict[str, str]:
    """The response to a command of the page."""
    script = command.replace("http://127.0.0.1:8787", address)
    environ = {**os.environ, **SECRETS}
    run = subprocess.run(
        ["sh", "-ec", script], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    answer: dict[str, str] = json.loads(run.stdout)
    return answer

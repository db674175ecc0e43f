"""docs/api.md: the codes and the commands it lists are those of a real gateway."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.doc_pages import REPO, DocsGateway, Pages

CODES = re.compile(r'code="(\w+)"')


def fetch(
    docs_gateway: DocsGateway, path: str, body: object = None, **headers: str
) -> tuple[int, str]:
    request = urllib.request.Request(
        docs_gateway.address + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {docs_gateway.token}", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def ask(docs_gateway: DocsGateway, text: str, **body: object) -> tuple[int, str]:
    body = {"messages": [{"role": "user", "content": text}], **body}
    return fetch(docs_gateway, "/v1/chat/completions", body, **{"X-Holdfast-Session": "docs"})


def test_the_page_lists_every_code_of_the_api(page: Pages) -> None:
    source = REPO / "src" / "holdfast" / "platforms" / "api"
    codes = {code for file in source.glob("*.py") for code in CODES.findall(file.read_text())}
    listed = {row[1].strip("`") for row in page("docs/api.md").rows if len(row) == 4}
    assert codes - listed == set()


def test_the_commands_on_the_page_are_the_existing_ones(
    page: Pages, docs_gateway: DocsGateway
) -> None:
    _, body = ask(docs_gateway, "/help")
    text = json.loads(body)["choices"][0]["message"]["content"]
    commands = set(re.findall(r"^/(\w+) - ", text, re.MULTILINE))
    listed = {row[0].split("`")[1] for row in page("docs/api.md").rows if "`/" in row[0]}
    named = {name.split()[0][1:] for name in listed if not name.startswith("/v1")}
    assert named and named <= commands


def test_health_and_refusals_are_as_the_page_shows_them(
    page: Pages, docs_gateway: DocsGateway
) -> None:
    text = page("docs/api.md").text
    assert fetch(docs_gateway, "/healthz") == (200, '{"ready": true}')
    status, refusal = ask(docs_gateway, "hi", tools=[{"type": "function"}])
    assert status == 400
    assert refusal in text


def test_the_shell_examples_run(page: Pages, docs_gateway: DocsGateway, tmp_path: Path) -> None:
    blocks = [block.text for block in page("docs/api.md").blocks if block.language == "sh"]
    assert len(blocks) >= 4
    script = "\n".join(blocks).replace("http://127.0.0.1:8787", docs_gateway.address)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=docs_gateway.environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"error":{' not in done.stdout
    assert "Linux" in done.stdout
    assert "data: [DONE]" in done.stdout


def test_the_python_examples_run(page: Pages, docs_gateway: DocsGateway, tmp_path: Path) -> None:
    blocks = [block.text for block in page("docs/api.md").blocks if block.language == "python"]
    done = subprocess.run(
        ["python", "-W", "error", "-c", "\n".join(blocks)],
        env=docs_gateway.environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Linux" in done.stdout

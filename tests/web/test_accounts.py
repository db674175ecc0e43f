"""The page says which account of a platform is not let in, and no longer once it is."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.nursery import VENDOR, bear
from tests.web.conftest import Visit, _served

from holdfast.control.client import ControlClient
from holdfast.models.misbehaving.process import ModelProcess


@pytest.fixture
def vendor() -> Iterator[str]:
    """A pretend chat service; its address."""
    process = bear(VENDOR, env=dict(os.environ), text=True)
    assert process.stdout is not None
    yield str(json.loads(process.stdout.readline())["base_url"])
    process.terminate()
    process.communicate(timeout=20)


def set_faults(vendor: str, **faults: Any) -> None:
    body = json.dumps({"faults": faults}).encode()
    with urllib.request.urlopen(f"{vendor}/faults", data=body) as answer:
        assert answer.status == 200


def test_an_account_that_is_refused_is_told_on_the_page_until_it_is_let_in(
    chromium: Any, tmp_path: Path, model: ModelProcess, vendor: str, visit: Visit
) -> None:
    set_faults(vendor, shut_out="the token is revoked")
    wanted = {"HOLDFAST_PLATFORMS_SIMULATED_BASE_URL": vendor}
    with _served(tmp_path / "home", model, **wanted) as served:
        visitor = visit(served)
        told = visitor.page.get_by_role("alert")
        told.get_by_text("simulated:default is refused for good: the token is revoked.").wait_for()
        set_faults(vendor)
        client = ControlClient(served.paths)
        assert client.post("/platforms/simulated/default/resume")["connected"]
        told.wait_for(state="hidden")

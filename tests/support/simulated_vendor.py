"""The simulated vendor as a process of its own, for tests that wait in no event loop."""

import json
import os
import re
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

from tests.support.fork_server import VENDOR, fork_process

_CODE = re.compile(r"\b([A-Z2-9]{4}-[A-Z2-9]{4})\b")
_PATIENCE = 30


class SimulatedVendor:
    """Owns the process while its context is open."""

    def __enter__(self) -> Self:
        self._process = fork_process(VENDOR, env=dict(os.environ), text=True)
        assert self._process.stdout is not None
        self.base_url: str = json.loads(self._process.stdout.readline())["base_url"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.communicate(timeout=_PATIENCE)

    @property
    def settings(self) -> str:
        """The table of holdfast.toml that leads here; more of its keys may follow."""
        return f'[platforms.simulated]\nbase_url = "{self.base_url}"\n'

    def have(self, **faults: Any) -> None:
        """These faults from now on, and no others."""
        body = json.dumps({"faults": faults}).encode()
        with urlopen(f"{self.base_url}/faults", body, timeout=_PATIENCE):
            pass

    def say(self, text: str, *, user: str, **more: Any) -> None:
        """Somebody writes to the bot in a chat of two, unless it is said otherwise."""
        body = {"chat": user, "user": user, "text": text, **more}
        with urlopen(f"{self.base_url}/say", json.dumps(body).encode(), timeout=_PATIENCE):
            pass

    def sent(self, number: int) -> list[dict[str, Any]]:
        """What the bot has sent, once it is so much: each with its `chat_id` and `text`."""
        url = f"{self.base_url}/ledger?sent={number}&wait={_PATIENCE}"
        with urlopen(url, timeout=2 * _PATIENCE) as answer:
            sent = [each["outgoing"] for each in json.load(answer)["sent"]]
        assert len(sent) >= number, f"only {len(sent)} of {number} were sent"
        return sent

    def code(self, number: int) -> str:
        """The pairing code in the message of that number."""
        found = _CODE.search(self.sent(number)[number - 1]["text"])
        assert found is not None
        return found[1]

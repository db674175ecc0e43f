"""The simulated vendor as a process of its own, for tests without an event loop."""

import json
import os
import re
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

from tests.support.fork_server import VENDOR, fork_process

_CODE = re.compile(r"\b([A-Z2-9]{4}-[A-Z2-9]{4})\b")
_TIMEOUT = 30


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
        self._process.communicate(timeout=_TIMEOUT)

    @property
    def settings(self) -> str:
        """The table of holdfast.toml for this vendor; more of its keys may follow."""
        return f'[platforms.simulated]\nbase_url = "{self.base_url}"\n'

    def set_faults(self, **faults: Any) -> None:
        """These faults from now on, and no others."""
        body = json.dumps({"faults": faults}).encode()
        with urlopen(f"{self.base_url}/faults", body, timeout=_TIMEOUT):
            pass

    def say(self, text: str, *, user: str, **more: Any) -> None:
        """A user writes to the bot, in a direct chat unless `more` names another."""
        body = {"chat": user, "user": user, "text": text, **more}
        with urlopen(f"{self.base_url}/say", json.dumps(body).encode(), timeout=_TIMEOUT):
            pass

    def sent(self, number: int) -> list[dict[str, Any]]:
        """What the bot has sent, once there are so many: each with its `chat_id` and `text`."""
        url = f"{self.base_url}/ledger?sent={number}&wait={_TIMEOUT}"
        with urlopen(url, timeout=2 * _TIMEOUT) as answer:
            sent = [each["outgoing"] for each in json.load(answer)["sent"]]
        assert len(sent) >= number, f"only {len(sent)} of {number} were sent"
        return sent

    def pairing_code(self, number: int) -> str:
        """The pairing code in the message of that number."""
        found = _CODE.search(self.sent(number)[number - 1]["text"])
        assert found is not None
        return found[1]

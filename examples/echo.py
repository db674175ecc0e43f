"""Echoes every message of the simulated chat service: a complete bot, without a gateway.

It loses nothing, and marks replies that it may have sent twice. In two terminals:

    .venv/bin/python -m holdfast.testing.simulated --port 9099
    .venv/bin/python examples/echo.py http://127.0.0.1:9099
"""

import argparse
import json
import time
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def call(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data), timeout=10) as response:
        return json.load(response)


def send(base_url: str, message: dict[str, Any]) -> None:
    """Retry until the message was sent, was refused, or was sent twice and marked."""
    while True:
        try:
            call(f"{base_url}/send", message)
            return
        except HTTPError as refused:
            if refused.code not in (429, 503):
                return  # refused for good
            time.sleep(float(refused.headers.get("Retry-After", "0.2")))
        except OSError:  # no receipt: the message may have arrived
            if message.get("maybe_repeated"):
                return
            message["maybe_repeated"] = True


def echo(base_url: str) -> None:
    echoed = set[int]()  # an update that arrives twice is answered once
    while True:
        try:
            for update in call(f"{base_url}/updates?wait=5"):
                number = update["id"]
                if number not in echoed:
                    reply = {"delivery_id": f"echo-{number}", "chat_id": update["chat_id"]}
                    send(base_url, reply | {"text": update["text"]})
                    echoed.add(number)
                call(f"{base_url}/ack", {"up_to": number})
        except OSError:  # disconnected: unacknowledged updates arrive again
            time.sleep(0.2)


if __name__ == "__main__":
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("base_url", help="address of the service, as it printed it")
    echo(parser.parse_args().base_url)

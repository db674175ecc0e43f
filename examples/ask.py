"""Asks a running gateway one question and prints its answer, with nothing but the standard library.

Whatever happens on the way, the question is asked again under the same message id, so that it is
answered once:

    export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=$(holdfast token)
    python examples/ask.py "run uname -a"
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

RETRIED = (502, 503)


def post(options: argparse.Namespace, message_id: str) -> str:
    """One request for the answer to this message; the same id again is the same message."""
    request = urllib.request.Request(
        f"{options.url}/chat/completions",
        data=json.dumps({"messages": [{"role": "user", "content": options.text}]}).encode(),
        headers={
            "Authorization": f"Bearer {options.key}",
            "Content-Type": "application/json",
            "X-Holdfast-Session": options.session,
            "X-Holdfast-Message-Id": message_id,
        },
    )
    with urllib.request.urlopen(request, timeout=options.timeout) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def ask(options: argparse.Namespace) -> str:
    """The answer, asked for until `timeout` is over, however often the gateway goes away."""
    message_id, give_up = options.id or f"ask-{uuid.uuid4()}", time.monotonic() + options.timeout
    while True:
        try:
            return post(options, message_id)
        except urllib.error.HTTPError as error:
            told = error.read().decode(errors="replace")
            # "x-should-retry: false" means that the answer is final, and is this error.
            final = error.headers.get("x-should-retry") == "false"
            if final or error.code not in RETRIED or time.monotonic() > give_up:
                sys.exit(f"{error.code}: {told}")
        except OSError as error:  # refused, reset or cut: the gateway is down for the moment
            if time.monotonic() > give_up:
                sys.exit(f"{options.url} cannot be reached: {error}")
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", help='what to ask, for example "run uname -a"')
    parser.add_argument("--session", default="me", help="which conversation (default: me)")
    parser.add_argument("--id", help="the message's id (default: a new one)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds (default: 600)")
    parser.add_argument(
        "--url",
        default=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8787/v1"),
        help="default: $OPENAI_BASE_URL, else http://127.0.0.1:8787/v1",
    )
    parser.add_argument(
        "--key", default=os.environ.get("OPENAI_API_KEY", ""), help="default: $OPENAI_API_KEY"
    )
    options = parser.parse_args()
    options.url = options.url.rstrip("/")
    print(ask(options))


if __name__ == "__main__":
    main()

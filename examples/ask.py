"""Asks a running gateway one question and prints the answer, using only the standard library.

After a failure it asks again under the same message id, so the question is answered once:

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
    """Send one request. A request with the same id again is the same message."""
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
    """Return the answer. Retry until `timeout` has passed, however often the gateway stops."""
    message_id, give_up = options.id or f"ask-{uuid.uuid4()}", time.monotonic() + options.timeout
    while True:
        try:
            return post(options, message_id)
        except urllib.error.HTTPError as error:
            body = error.read().decode(errors="replace")
            # "x-should-retry: false" means that the answer is final, and is this error.
            final = error.headers.get("x-should-retry") == "false"
            if final or error.code not in RETRIED or time.monotonic() > give_up:
                sys.exit(f"{error.code}: {body}")
        except OSError as error:  # refused, reset or cut off: the gateway is down at the moment
            if time.monotonic() > give_up:
                sys.exit(f"Could not reach {options.url}: {error}")
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", help='what to ask, for example "run uname -a"')
    parser.add_argument("--session", default="me", help="name of the conversation (default: me)")
    parser.add_argument("--id", help="id of the message (default: a new one)")
    parser.add_argument(
        "--timeout", type=float, default=600, help="give up after this many seconds (default: 600)"
    )
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

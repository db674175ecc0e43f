"""Talks to a running gateway with the official OpenAI client, streamed, in one session.

Install the client with `pip install openai` (`make test` installs it into .venv), and then run:

    export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=$(holdfast token)
    python examples/openai_client.py
"""

import argparse
import uuid

from openai import OpenAI

SAID = ("run export GREETING=hello", "run echo $GREETING again")


def stream(client: OpenAI, text: str, *, session: str) -> None:
    """Print the answer as it streams. Only the new message is sent: the gateway has the history."""
    chunks = client.chat.completions.create(
        model="holdfast",
        messages=[{"role": "user", "content": text}],
        stream=True,
        # With a message id, a failed request can be repeated without asking twice. The client
        # retries automatically.
        extra_headers={"X-Holdfast-Session": session, "X-Holdfast-Message-Id": str(uuid.uuid4())},
    )
    print(f"> {text}")
    for chunk in chunks:
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
    print("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", nargs="*", default=SAID, help="messages to send, one after another")
    parser.add_argument("--session", default="openai-client", help="name of the conversation")
    options = parser.parse_args()
    with OpenAI() as client:  # reads OPENAI_BASE_URL and OPENAI_API_KEY
        for text in options.text:
            stream(client, text, session=options.session)


if __name__ == "__main__":
    main()

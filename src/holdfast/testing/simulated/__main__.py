"""The simulated chat service as a process of its own: `python -m holdfast.testing.simulated`."""

import argparse
import asyncio
import os
import signal
import sys
import time

import msgspec

from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService


async def _serve(service: ChatService, *, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve(service, port=port) as base_url:
        bound = int(base_url.rpartition(":")[2])
        print(msgspec.json.encode({"port": bound, "base_url": base_url}).decode(), flush=True)
        await stop.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.simulated")
    add = parser.add_argument
    add("--port", type=int, default=0, help="0: any free one; it is printed")
    add("--idempotent-send", action="store_true", help="take a delivery id once")
    add("--lookup", action="store_true", help="say what became of a delivery")
    add("--max-length", type=int, default=None, help="characters of one message")
    add("--edit", action="store_true", help="let bots change what they have sent")
    add("--edit-interval", type=float, default=1.0, help="seconds that bots leave between edits")
    add("--typing", action="store_true", help="show that bots write")
    add("--reactions", action="store_true", help="let bots put signs on what people say")
    add("--buttons", action="store_true", help="show the choices under a message")
    add("--settle", type=float, default=0.0, help="seconds in which parts of an album come")
    add("--relay", action="store_true", help="let bots hear each other, and themselves")
    add("--busy-notices", action="store_true", help="tell chats what becomes of a message")
    add("--restart-notices", action="store_true", help="tell chats of restarts")
    add("--alive-within", type=float, default=0.0, help="seconds of silence a bot bears; 0: any")
    add(
        "--backlog",
        type=Backlog,
        choices=list(Backlog),
        default=Backlog.UNTIL_ACKED,
        help="which messages are stored for a bot that is offline",
    )
    return parser.parse_args()


def main() -> None:
    about = vars(_options())
    port = about.pop("port")
    # A gateway remembers the ids of the service that ran before this one; a clock never gives
    # those again.
    service = ChatService(first_update_id=time.time_ns() // 1000, **about)
    try:
        asyncio.run(_serve(service, port=port))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        sys.exit(f"127.0.0.1:{port} cannot be listened on: {why}. Name another port with --port.")


if __name__ == "__main__":
    main()

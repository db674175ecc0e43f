"""The pretend vendor as a process of its own: `python -m holdfast.platforms.simulated`."""

import argparse
import asyncio
import signal
import time

import msgspec

from holdfast.platforms.simulated.server import serving
from holdfast.platforms.simulated.service import ChatService


async def _serve(service: ChatService, *, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(service, port=port) as base_url:
        bound = int(base_url.rpartition(":")[2])
        print(msgspec.json.encode({"port": bound, "base_url": base_url}).decode(), flush=True)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.platforms.simulated")
    parser.add_argument("--port", type=int, default=0, help="0: any free one; it is printed")
    parser.add_argument("--idempotent-send", action="store_true", help="take a delivery id once")
    parser.add_argument("--max-length", type=int, default=None, help="characters of one message")
    parser.add_argument("--restart-notices", action="store_true", help="tell chats of restarts")
    options = parser.parse_args()
    service = ChatService(
        idempotent_send=options.idempotent_send,
        max_length=options.max_length,
        restart_notices=options.restart_notices,
        # A gateway remembers the ids of the service that ran before this one; a clock never
        # gives those again.
        first_update_id=time.time_ns() // 1000,
    )
    asyncio.run(_serve(service, port=options.port))


if __name__ == "__main__":
    main()

"""Runs the misbehaving model server until it is stopped."""

import argparse
import asyncio
import json
import signal
import sys

from aiohttp import web

from holdfast.testing import misbehaving_model
from holdfast.testing.misbehaving_model.server import MisbehavingModel


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing.misbehaving_model",
        description=misbehaving_model.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--latency", type=float, default=0, help="seconds before every answer")
    parser.add_argument("--key", help="the API key to insist on")
    parser.add_argument("--keep", type=int, default=10_000, help="requests to remember")
    parser.add_argument("--model", action="append", help="a model that it lists; may be repeated")
    parser.add_argument("--until-eof", action="store_true", help="end when stdin is closed")
    asyncio.run(_serve(parser.parse_args()))


async def _serve(options: argparse.Namespace) -> None:
    model = MisbehavingModel(
        latency=options.latency,
        key=options.key,
        max_requests=options.keep,
        names=options.model or ("scripted",),
    )
    server = web.Server(model.answer, handler_cancellation=True, access_log=None)
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    if options.until_eof:
        loop.add_reader(sys.stdin, over.set)
    listener = await loop.create_server(server, options.host, options.port, backlog=4096)
    print(json.dumps({"port": listener.sockets[0].getsockname()[1]}), flush=True)
    await over.wait()
    listener.close()
    await server.shutdown(0)


if __name__ == "__main__":
    main()

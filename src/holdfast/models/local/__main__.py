"""The server process: serves one model file until its stdin is closed.

python -m holdfast.models.local FILE [OPTIONS]     # prints {"base_url": "http://127.0.0.1:N/v1"}

OPTIONS is a JSON object with `threads` (0: one per core) and `sampling`, the defaults of requests.
"""

import json
import os
import sys
from importlib import import_module
from typing import Any

_CONTEXT = 8192  # tokens, for all conversations that are answered at once
_PARALLEL = 2
_PROMPT_CACHE_MB = 64


def main() -> None:
    # The gateway's own work goes first: this one may take every core for seconds.
    os.nice(5)
    server = _start_server(sys.argv[1], json.loads(sys.argv[2]) if sys.argv[2:] else {})
    print(json.dumps({"base_url": f"{server.listening_address}/v1"}), flush=True)
    sys.stdin.read()
    # Not `sys.exit`: unwinding the server's threads takes longer than it is worth.
    os._exit(0)


def _start_server(path: str, options: dict[str, Any]) -> Any:
    llama = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = _PARALLEL
    params.n_ctx = _CONTEXT
    params.kv_unified = True
    params.cache_ram_mib = _PROMPT_CACHE_MB
    params.use_jinja = True
    params.warmup = False
    if threads := options.get("threads"):
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    for name, value in options.get("sampling", {}).items():
        setattr(params.sampling, name, value)
    return llama.Server(params)


if __name__ == "__main__":
    main()

"""A start imports only what every gateway needs: each module costs time and memory."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.command_line import environment

# Libraries that every start may import; another one must be worth its cost at every start.
LIBRARIES = {"aiohttp", "apsw", "click", "msgspec", "uvloop"}
TRANSITIVE_LIBRARIES = {
    *("aiohappyeyeballs", "aiosignal", "attr", "frozenlist", "idna", "multidict", "propcache"),
    *("typing_extensions", "yarl"),
}
# Slow modules of the standard library that only some gateways need.
# Not ctypes (2 ms): a start needs it to hide its memory from other processes.
SLOW_MODULES = {"gzip", "html.parser", "importlib.resources", "sqlite3", "tarfile", "xml"}
# Imported on first use: `server/api/mount.py`, `gateway/commands/dispatcher.py`.
LAZY_MODULES = {"holdfast.server.api.router", "holdfast.gateway.commands.table"}
MAX_OWN_MODULES = 520
PROGRAM = """
import itertools, json, os, signal, socket, sys, threading

address = os.environ["NOTIFY_SOCKET"]
notify_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify_socket.bind(address)
imported = []  # modules at each message to the supervisor; later imports are not part of the start

def record_modules(event, arguments):
    if event == "socket.sendmsg" and arguments[1] == address:
        imported.append(list(sys.modules))

sys.addaudithook(record_modules)

def write_modules(path=sys.argv[1]):
    ready = next(each for each in itertools.count() if b"READY=1" in notify_socket.recv(4096))
    with open(path, "w") as file:
        json.dump(imported[ready], file)
    os.kill(os.getpid(), signal.SIGTERM)

from holdfast.cli.entry import main

threading.Thread(target=write_modules, daemon=True).start()
sys.argv = ["holdfast", "run", "--port", "0", "--unattended"]
main()
"""


def test_a_start_imports_neither_lazy_modules_nor_unneeded_libraries(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "imported")],
        env=environment(tmp_path) | {"NOTIFY_SOCKET": str(tmp_path / "notify")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported = set(json.loads((tmp_path / "imported").read_text()))
    ours = {name for name in imported if name.partition(".")[0] == "holdfast"}
    roots = {name.partition(".")[0] for name in imported - ours}
    others = {name for name in roots - set(sys.stdlib_module_names) if not name.startswith("_")}
    assert others - LIBRARIES - TRANSITIVE_LIBRARIES - {"cython_runtime"} == set()
    assert imported & (SLOW_MODULES | LAZY_MODULES) == set()
    assert len(ours) <= MAX_OWN_MODULES, "import what only some need when they first need it"

"""A start imports what a message needs and no more: each module is time and memory of every one."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.command_line import environment

# What the gateway is made of. Another library at a start has to be worth what every start pays.
LIBRARIES = {"aiohttp", "apsw", "click", "msgspec"}
THEIRS = {
    *("aiohappyeyeballs", "aiosignal", "attr", "frozenlist", "idna", "multidict", "propcache"),
    *("typing_extensions", "yarl"),
}
# Of the standard library what takes longest, and is for what only some gateways ever do.
HEAVY = {"ctypes", "gzip", "html.parser", "importlib.resources", "sqlite3", "tarfile", "xml"}
# Imported by whoever first asks for it: `server/api/mount.py`, `gateway/commands/dispatcher.py`.
WHEN_ASKED = {"holdfast.server.api.router", "holdfast.gateway.commands.registry"}
MOST_OF_OURS = 520
PROGRAM = """
import itertools, json, os, signal, socket, sys, threading

place = os.environ["NOTIFY_SOCKET"]
line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
line.bind(place)
imported = []  # by then, for each word to the supervisor; what comes after the start is not of it

def hear(event, arguments):
    if event == "socket.sendmsg" and arguments[1] == place:
        imported.append(list(sys.modules))

sys.addaudithook(hear)

def tell(to=sys.argv[1]):
    ready = next(each for each in itertools.count() if b"READY=1" in line.recv(4096))
    with open(to, "w") as told:
        json.dump(imported[ready], told)
    os.kill(os.getpid(), signal.SIGTERM)

from holdfast.cli.entry import main

threading.Thread(target=tell, daemon=True).start()
sys.argv = ["holdfast", "run", "--port", "0", "--unattended"]
main()
"""


def test_a_start_imports_neither_what_is_asked_for_later_nor_libraries_of_others(
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
    assert others - LIBRARIES - THEIRS - {"cython_runtime"} == set()
    assert imported & (HEAVY | WHEN_ASKED) == set()
    assert len(ours) <= MOST_OF_OURS, "import what only some need when they first need it"

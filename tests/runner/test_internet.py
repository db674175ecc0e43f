"""network = "internet": a sandbox with a route to public addresses, and to nothing else.

The runner is started in a network namespace of the test's own, which stands for a machine with
services, a name server and one host in the internet. No packet leaves it.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.config.settings import NetworkMode, RunnerSettings
from holdfast.runner import bubblewrap
from holdfast.runner.bubblewrap import NetworkUnavailable, make_plan

PUBLIC, OWN, PRIVATE = "93.184.215.14", "93.184.215.20", "192.168.77.1"
TOOLS = ("pasta", "slirp4netns")

# Runs a command in a sandbox of that mode, with that tool only.
RUNNER = """
import asyncio, contextlib, socket, sys, time
from pathlib import Path
from holdfast.core.config.settings import NetworkMode, RunnerSettings
from holdfast.runner import bubblewrap
from holdfast.runner.runners import Runners
from holdfast.system.egress import EgressPolicy

class Clock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

async def ignore(_): ...

async def main():
    bubblewrap.INTERNET_TOOLS = (sys.argv[2],)
    runners = Runners(
        Path(sys.argv[1]), RunnerSettings(network=NetworkMode.INTERNET), clock=Clock(),
        on_started=ignore, on_ended=ignore, egress=EgressPolicy,
    )
    try:
        sandbox = runners.sandbox("s_1")
        for number, command in enumerate(sys.argv[3:-1]):
            await sandbox.start_process(f"p{number}", command)
        print((await sandbox.run("c", sys.argv[-1], limit=60)).output, end="")
        for address in ("127.0.0.1", "::1", "93.184.215.20"):
            with contextlib.suppress(OSError):
                socket.create_connection((address, 9999), timeout=5)
                print("visible at", address)
    finally:
        await runners.end_all()

asyncio.run(main())
"""
# Answers with a name on ports of all addresses, and as a name server for every name.
SERVICES = """
import socket, struct, sys, threading
name, port, public = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def answer(server):
    while True:
        server.accept()[0].sendall(name.encode())

def resolve(sock):
    while True:
        query, sender = sock.recvfrom(512)
        flags = query[:2] + b"\\x81\\x80\\0\\1\\0\\1\\0\\0\\0\\0" + query[12:]
        record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4" + socket.inet_aton(public)
        sock.sendto(flags + record, sender)

tcp = socket.create_server(("0.0.0.0", port))
threading.Thread(target=answer, args=(tcp,), daemon=True).start()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", 53))
threading.Thread(target=resolve, args=(udp,), daemon=True).start()
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0" + name)
abstract.listen()
print("ready", flush=True)
sys.stdin.read()
"""
ATTACK = """
import json, socket, sys
port, public, own, private = int(sys.argv[1]), *sys.argv[2:5]
found = {}

def attempt(what, action):
    try:
        found[what] = action()
    except OSError as error:
        found[what] = None

def read(address, port=port):
    with socket.create_connection((address, port), timeout=10) as sock:
        return sock.recv(100).decode()

def abstract(name):
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect("\\0" + name) or "connected"

name_server = open("/etc/resolv.conf").read().split()[1]
attempt("public", lambda: read(public))
attempt("a name", lambda: read("public.example"))
for what, address in {
    "the machine": own, "the machine in its network": private, "loopback": "127.0.0.1",
    "next hop of slirp4netns": "10.0.2.2", "next hop of pasta": "192.0.0.8",
    "the name server": name_server, "the subnet of slirp4netns": "10.0.2.15",
    "metadata": "169.254.169.254", "another private host": "192.168.77.2", "carrier": "100.64.0.1",
    "mapped": "::ffff:" + own, "IPv6": "fd00::1",
}.items():
    attempt(what, lambda: read(address))
attempt("abstract", lambda: abstract("machine"))
print(json.dumps(found))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[list[str]]:
    """The command that runs something on a machine with a host in the internet beside it."""
    if os.getuid() or shutil.which("ip") is None or shutil.which("bwrap") is None:
        pytest.skip("needs root, bubblewrap and iproute2")
    inside, outside = f"hf-machine-{os.getpid()}", f"hf-internet-{os.getpid()}"
    resolver = Path(f"/etc/netns/{inside}")
    processes = []
    try:
        for namespace in (inside, outside):
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("-n", inside, "link", "add", "v0", "type", "veth", "peer", "v1", "netns", outside)
        for namespace, device, address in ((inside, "v0", OWN), (outside, "v1", PUBLIC)):
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", device)
            _ip("-n", namespace, "link", "set", device, "up")
        _ip("-n", inside, "address", "add", f"{PRIVATE}/24", "dev", "v0")
        _ip("-n", inside, "route", "add", "default", "via", PUBLIC)
        resolver.mkdir(parents=True)
        (resolver / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        for namespace, name in ((inside, "machine"), (outside, "internet")):
            command = ["ip", "netns", "exec", namespace, sys.executable, "-c", SERVICES]
            process = subprocess.Popen(
                [*command, name, "8080", PUBLIC], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            processes.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield ["ip", "netns", "exec", inside]
    finally:
        for process in processes:
            process.communicate()
        for namespace in (inside, outside):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
        shutil.rmtree(resolver, ignore_errors=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


async def run_in_sandbox(machine: list[str], home: Path, tool: str, *commands: str) -> str:
    """The output of the last command, with the others in the background."""
    if shutil.which(tool) is None:
        package = {"pasta": "passt"}.get(tool, tool)
        pytest.skip(f"needs {tool}: apt install {package}")
    process = await asyncio.create_subprocess_exec(
        *(*machine, sys.executable, "-c", RUNNER, str(home), tool, *commands),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


@pytest.mark.parametrize("tool", TOOLS)
async def test_only_public_addresses_are_reached(
    machine: list[str], tmp_path: Path, tool: str
) -> None:
    command = f"python3 -c '{ATTACK}' 8080 {PUBLIC} {OWN} {PRIVATE}"
    found = json.loads(await run_in_sandbox(machine, tmp_path, tool, command))
    reached = {what: answer for what, answer in found.items() if answer is not None}
    assert reached == {"public": "internet", "a name": "internet"}


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_port_taken_in_the_sandbox_is_not_taken_on_the_machine(
    machine: list[str], tmp_path: Path, tool: str
) -> None:
    servers = [f"exec python3 -m http.server 9999 --bind {each}" for each in ("0.0.0.0", "::1")]
    ready = "until curl -s localhost:9999 -o x && curl -s [::1]:9999 -o x; do sleep 0.05; done"
    output = await run_in_sandbox(machine, tmp_path, tool, *servers, f"{ready}; echo taken")
    assert output == "taken\n"


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_command_cannot_change_the_routes(
    machine: list[str], tmp_path: Path, tool: str
) -> None:
    script = """
        ip route del unreachable 10.0.0.0/8; ip route add 10.0.0.0/8 dev tap0
        ip link set tap0 down; unshare -Urn true; ls /proc/1/fd; ip route get 10.1.2.3
        ip link show tap0 | grep -c ,UP
    """
    output = await run_in_sandbox(machine, tmp_path, tool, f"({script}) 2>&1")
    lines = output.split("\n")
    assert "1" in lines, output
    assert sum("not permitted" in line for line in lines) >= 3
    assert any("No route to host" in line or "unreachable" in line for line in lines)


@pytest.mark.parametrize("tool", TOOLS)
async def test_no_process_is_left_when_the_session_has_ended(
    machine: list[str], tmp_path: Path, tool: str
) -> None:
    await run_in_sandbox(machine, tmp_path, tool, "true")
    async with asyncio.timeout(20):
        # Those of the machine are its services; the others were started with a path of the home.
        while len(_pids_of(machine[-1])) > 1 or _commands_with(str(tmp_path)):
            await asyncio.sleep(0.05)


def _pids_of(namespace: str) -> list[str]:
    found = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, check=True)
    return found.stdout.decode().split()


def _commands_with(text: str) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(text) in command:
            found.append(name)
    return found


def test_the_mode_is_refused_where_it_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never another network instead, and not an unsandboxed one either."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    monkeypatch.setattr(bubblewrap, "INTERNET_TOOLS", ("no-such-program",))
    settings = RunnerSettings(network=NetworkMode.INTERNET)
    with pytest.raises(
        NetworkUnavailable, match=r"neither pasta nor slirp4netns .* apt install passt"
    ):
        make_plan(settings, runs=tmp_path)

"""The network of the sandbox: its own loopback, and one path out of it; and what the other modes
expose."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.runner.local_sites import NAME, LocalSites
from tests.runner.runner_log import SESSION_ID, OpenRunners, RunnerLog

from holdfast.core.config.settings import NetworkMode, RunnerSettings
from holdfast.core.ids import CallId, SessionId
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.launch import PROXY_PORT
from holdfast.runner.paths import SessionPaths
from holdfast.system.egress import EgressPolicy

PYTHON = "python3 -I -c"


@pytest.fixture
async def sites(tmp_path: Path) -> AsyncIterator[LocalSites]:
    folder = tmp_path / "site"
    folder.mkdir()
    async with LocalSites(folder).open() as sites:
        yield sites


@pytest.fixture
async def proxied(open_runners: OpenRunners, sites: LocalSites, home: Path) -> Sandbox:
    """A sandbox of the default mode, which knows the certificate of the sites."""
    sandbox = open_runners(egress=sites.policy).sandbox(SESSION_ID)
    await sandbox.write_file(CallId("w"), "ca.pem", sites.certificate.read_text())
    return sandbox


CLIENTS = {
    "curl": "curl -sS {http}/hello && curl -sS --cacert ca.pem {https}/hello",
    "curl with SOCKS": (
        f"curl -sS -x socks5h://127.0.0.1:{PROXY_PORT} {{http}}/hello"
        f" && curl -sS --cacert ca.pem -x socks5h://127.0.0.1:{PROXY_PORT} {{https}}/hello"
    ),
    "wget": "wget -qO- {http}/hello && wget -qO- --ca-certificate=ca.pem {https}/hello",
    "python3": """SSL_CERT_FILE=ca.pem python3 -c '
from urllib.request import urlopen
for url in ("{http}/hello", "{https}/hello"):
    print(urlopen(url).read().decode())'""",
    "requests": """python3 -c '
try:
    import requests
except ImportError:
    from pip._vendor import requests
for url in ("{http}/hello", "{https}/hello"):
    print(requests.get(url, verify="ca.pem").text)'""",
    "node": """NODE_EXTRA_CA_CERTS=ca.pem node -e '
process.on("warning", () => 0);
(async () => {{ for (const url of ["{http}/hello", "{https}/hello"])
    console.log(await (await fetch(url)).text()) }})()'""",
    "pip": (
        "pip --cert ca.pem install -q --no-deps --target x -i {https}/simple demo"
        " && pip install -q --no-deps --target y --trusted-host site.example"
        " -i {http}/simple demo && ls x/demo.py y/demo.py && echo hello hello"
    ),
    "npm": (
        "npm install --no-audit --no-fund --cafile ca.pem --registry {https}/npm/ --prefix x demo"
        " && npm install --no-audit --no-fund --registry {http}/npm/ --prefix y demo"
        " && ls -d x/node_modules/demo y/node_modules/demo && echo hello hello"
    ),
    "git": (
        "git -c http.sslCAInfo=/workspace/ca.pem clone -q {https}/files/repo.git x"
        " && git clone -q {http}/files/repo.git y"
        " && git -C x log --oneline && git -C y log --oneline && echo hello hello"
    ),
    "apt-get": """
mkdir -p apt/state/lists/partial apt/cache/archives/partial; touch apt/status
echo "deb [trusted=yes] {http}/files/debian ./" >apt/sources
options="-o Dir::Etc=/workspace/apt -o Dir::Etc::sourcelist=/workspace/apt/sources"
options="$options -o Dir::Etc::sourceparts=- -o Dir::State=/workspace/apt/state"
options="$options -o Dir::State::status=/workspace/apt/status -o APT::Sandbox::User=$USER"
options="$options -o Dir::Cache=/workspace/apt/cache -o Dir::Log=/workspace/apt"
apt-get $options update && apt-cache $options policy demo | grep 'Candidate: 1.0'
[ $? = 0 ] && echo hello hello
""",
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_clients_reach_public_servers_without_setup(
    proxied: Sandbox, sites: LocalSites, name: str
) -> None:
    """They find the proxy in the environment; names are resolved by the proxy."""
    program = {"requests": "python3", "curl with SOCKS": "curl"}.get(name, name)
    if shutil.which(program, path="/usr/bin:/bin") is None:
        pytest.skip(f"needs {program} in /usr/bin")
    if name == "node" and not await _node_reads_the_environment(proxied):
        pytest.skip("needs a node that reads NODE_USE_ENV_PROXY (24, or 22.21)")
    urls = {scheme: f"{scheme}://{NAME}:{port}" for scheme, port in sites.ports.items()}
    result = await proxied.run(CallId("c"), CLIENTS[name].format(**urls), limit=90)
    assert (result.exit_code, result.output.count("hello")) == (0, 2), result.output
    assert [(each.session_id, each.host) for each in sites.contacts] == [(SESSION_ID, NAME)]


async def _node_reads_the_environment(sandbox: Sandbox) -> bool:
    found = (await sandbox.run(CallId("v"), "node --version", limit=60)).output
    major, minor = (int(part) for part in found.strip().lstrip("v").split(".")[:2])
    return major >= 24 or (major, minor) >= (22, 21)


async def test_servers_of_the_session_are_reached_directly(proxied: Sandbox) -> None:
    await proxied.start_process(
        CallId("p"), "echo own >page; exec python3 -m http.server 8000 --bind 127.0.0.1"
    )
    script = """
        until curl -sS http://localhost:8000/page 2>/dev/null; do sleep 0.05; done
        python3 -c 'from urllib.request import urlopen
print(urlopen("http://127.0.0.1:8000/page").read())'
    """
    assert (await proxied.run(CallId("c"), script, limit=60)).output == "own\nb'own\\n'\n"


async def test_sessions_do_not_share_a_loopback(open_runners: OpenRunners) -> None:
    runners = open_runners()
    mine, yours = (runners.sandbox(SessionId(name)) for name in ("mine", "yours"))
    await mine.start_process(CallId("p"), "exec python3 -m http.server 8000")
    ready = "until curl -s http://localhost:8000 >/dev/null; do sleep 0.05; done"
    await mine.run(CallId("c"), ready, limit=60)
    result = await yours.run(CallId("c"), "curl -sS http://localhost:8000", limit=60)
    assert result.exit_code == 7  # the connection is refused


# An agent that looks for ways out of its network, and prints which it found.
ATTACK = """
import json, socket, sys
port, name, machine = int(sys.argv[1]), sys.argv[2], sys.argv[3]
found = {}

def attempt(what, action):
    try:
        found[what] = action() or True
    except OSError:
        found[what] = False

def connect(family, address):
    with socket.socket(family) as sock:
        sock.settimeout(5)
        sock.connect(address)

def routed(address):
    # Of a datagram socket: asks for the route and sends nothing.
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect((address, 9))

attempt("gateway", lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
attempt("abstract socket", lambda: connect(socket.AF_UNIX, "\\0" + name))
attempt("machine", lambda: connect(socket.AF_INET, (machine, port)))
attempt("metadata", lambda: routed("169.254.169.254"))
attempt("private network", lambda: routed("192.168.1.1"))
attempt("private network (IPv6)", lambda: routed("fd00::7"))
print(json.dumps(found))
"""
# Takes the ports of a gateway that has died, and of a model server, and answers on them.
IMPOSTOR = """
import socket, sys
ports = list(map(int, sys.argv[1:]))
servers = [socket.create_server(("127.0.0.1", port)) for port in ports]
servers += [socket.create_server(("::1", port), family=socket.AF_INET6) for port in ports]
print("listening", flush=True)
sys.stdin.read()
"""


class Machine:
    """What a gateway has on the network of its machine: a port, and a socket without a file."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("0.0.0.0", 0))
        self.port: int = self.listener.getsockname()[1]
        self.name = f"holdfast-test-{os.getpid()}"
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0{self.name}")
        self.abstract.listen()

    @property
    def address(self) -> str:
        """That of a network interface, if there is one."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect(("192.0.2.254", 9))  # sends nothing
            except OSError:
                return "127.0.0.1"
            return str(sock.getsockname()[0])

    def close(self) -> None:
        self.listener.close()
        self.abstract.close()


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    machine = Machine()
    yield machine
    machine.close()


async def attack(sandbox: Sandbox, machine: Machine) -> dict[str, bool]:
    await sandbox.write_file(CallId("w"), "attack.py", ATTACK)
    command = f"python3 attack.py {machine.port} {machine.name} {machine.address}"
    result = await sandbox.run(CallId("c"), command, limit=60)
    found: dict[str, bool] = json.loads(result.output)
    return found


@pytest.mark.parametrize("mode", [NetworkMode.PROXY, NetworkMode.NONE])
async def test_nothing_of_the_machine_is_reached_from_a_separate_network(
    open_runners: OpenRunners, machine: Machine, mode: NetworkMode
) -> None:
    sandbox = open_runners(RunnerSettings(network=mode)).sandbox(SESSION_ID)
    found = await attack(sandbox, machine)
    assert [what for what, reached in found.items() if reached] == []


async def test_the_network_of_the_machine_exposes_it(
    open_runners: OpenRunners, machine: Machine
) -> None:
    """What "host" means; it has to be chosen."""
    sandbox = open_runners(RunnerSettings(network=NetworkMode.HOST)).sandbox(SESSION_ID)
    found = await attack(sandbox, machine)
    assert all(found[what] for what in ("gateway", "abstract socket", "machine"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.mark.parametrize("mode", [NetworkMode.PROXY, NetworkMode.NONE, NetworkMode.HOST])
async def test_a_port_taken_in_the_sandbox_is_not_taken_on_the_machine(
    open_runners: OpenRunners, mode: NetworkMode
) -> None:
    """The ports of a gateway that has died, and of Ollama (another one, where that is in use)."""
    sandbox = open_runners(RunnerSettings(network=mode)).sandbox(SESSION_ID)
    ports = [free_port(), free_port()]
    if mode is not NetworkMode.HOST:
        ports.append(11434)
    await sandbox.write_file(CallId("w"), "impostor.py", IMPOSTOR)
    arguments = " ".join(map(str, ports))
    process = await sandbox.start_process(
        CallId("p"), f"tail -f /dev/null | python3 impostor.py {arguments}"
    )
    async with asyncio.timeout(30):
        while "listening" not in (await sandbox.read_process_log(process.id)).output:
            await asyncio.sleep(0.02)
    visible = [
        (address, port)
        for address in ("127.0.0.1", "::1")
        for port in ports
        if port != 11434 and _accepts(address, port)
    ]
    expected = [(address, port) for address in ("127.0.0.1", "::1") for port in ports]
    assert visible == (expected if mode is NetworkMode.HOST else [])


def _accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError:
        return False
    return True


async def test_the_proxy_leads_to_public_addresses_only(
    open_runners: OpenRunners, machine: Machine
) -> None:
    """However they are spelled, and whatever a name resolves to."""

    async def resolve(host: str, port: int) -> list[str]:
        if host.endswith(".example"):
            return ["127.0.0.1"]
        found = await asyncio.get_running_loop().getaddrinfo(host, port)
        return [str(info[4][0]) for info in found]

    sandbox = open_runners(egress=lambda: EgressPolicy(resolve=resolve)).sandbox(SESSION_ID)
    hosts = [
        "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0",
        "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
        "169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "192.168.1.1", "100.64.0.1",
        machine.address, "public-looking.example",
    ]  # fmt: skip
    schemes = ("http", "socks5", "socks5h")
    script = "\n".join(
        f"curl -s -o /dev/null -w '%{{http_code}} %{{exitcode}} {host} {scheme}\\n' --noproxy ''"
        f" -x {scheme}://127.0.0.1:{PROXY_PORT} {tunnel} 'http://{host}:{machine.port}/'"
        for host in hosts
        for scheme in schemes
        for tunnel in ("", "-p")
        if scheme != "socks5" or not host.endswith(".example")
    )
    result = await sandbox.run(CallId("c"), f"{script}\ntrue", limit=100)
    lines = result.output.splitlines()
    assert len(lines) >= len(hosts) * 4
    # A status of the proxy; or curl's codes for a tunnel and for SOCKS that are refused.
    refusals = ("403 0 ", "502 0 ", "000 56 ", "000 97 ")
    assert [line for line in lines if not line.startswith(refusals)] == []
    machine.listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        machine.listener.accept()


async def test_without_a_proxy_there_is_none(open_runners: OpenRunners) -> None:
    """ "none": the environment names no proxy, and none listens."""
    sandbox = open_runners(RunnerSettings(network=NetworkMode.NONE)).sandbox(SESSION_ID)
    script = f"env | grep -i proxy; curl -sS -x http://127.0.0.1:{PROXY_PORT} http://{NAME}/"
    result = await sandbox.run(CallId("c"), script, limit=60)
    assert result.exit_code == 7 and "PROXY" not in result.output


async def test_a_saved_terminal_follows_the_mode(
    open_runners: OpenRunners, home: Path, sites: LocalSites
) -> None:
    """The variables of a terminal outlive its runner: the proxy comes and goes with the mode."""
    shown = "echo $http_proxy,$MINE"
    outputs = []
    for mode in (NetworkMode.NONE, NetworkMode.PROXY, NetworkMode.NONE):
        runners = open_runners(RunnerSettings(network=mode))
        sandbox = runners.sandbox(SESSION_ID)
        await sandbox.run(CallId(f"a{len(outputs)}"), "export MINE=kept", limit=60)
        await runners.end_session(SESSION_ID)
        result = await sandbox.run(CallId(f"b{len(outputs)}"), shown, limit=60)
        outputs.append(result.output.strip())
        await runners.end_session(SESSION_ID)
    assert outputs == [",kept", f"http://127.0.0.1:{PROXY_PORT},kept", ",kept"]


async def test_traffic_does_not_delay_commands(proxied: Sandbox, sites: LocalSites) -> None:
    """Also not where one client does not read what it has asked for."""
    url, busy = sites.url("endless"), 20
    stuck = f"""python3 -c '
import socket, time
sock = socket.create_connection(("127.0.0.1", {PROXY_PORT}))
sock.sendall(b"GET {url} HTTP/1.1\\r\\n\\r\\n")
time.sleep(1000)'"""
    await proxied.start_process(CallId("stuck"), stuck)
    await proxied.start_process(
        CallId("busy"), f"for i in $(seq {busy}); do curl -s {url} >/dev/null & done; wait"
    )
    async with asyncio.timeout(60):
        while sites.streaming <= busy:
            await asyncio.sleep(0.02)
    for number in range(10):
        result = await proxied.run(CallId(f"c{number}"), "echo done", limit=20)
        assert result.output == "done\n"
    assert sites.streaming == busy + 1
    hello = await proxied.run(CallId("hello"), f"curl -sS {sites.url('hello')}", limit=20)
    assert hello.output == "hello"


async def test_the_sandbox_cannot_replace_the_socket_of_the_proxy(proxied: Sandbox) -> None:
    script = "rm -f /run/egress/sock; mv /run/egress/sock /tmp; touch /run/egress/x; ls /run/egress"
    assert (await proxied.run(CallId("c"), script, limit=60)).output.endswith("\nsock\n")


# A gateway in a process of its own, whose policy knows the sites.
GATEWAY = """
import asyncio, sys, time
from pathlib import Path
import msgspec
from holdfast.core.config.settings import RunnerSettings
from holdfast.runner.runners import Runners
from holdfast.system.egress import EgressPolicy

class Clock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

async def started(row):
    print(msgspec.json.encode(row).decode(), flush=True)

async def ended(session_id): ...

async def resolve(host, port):
    return ["127.0.0.1"]

def policy():
    return EgressPolicy(resolve=resolve, is_allowed=lambda address: True)

async def main():
    runners = Runners(
        Path(sys.argv[1]), RunnerSettings(), clock=Clock(), on_started=started, on_ended=ended,
        egress=policy,
    )
    await runners.sandbox("s_1").start_process("p", sys.argv[2])
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def test_the_network_of_a_runner_is_back_with_the_next_gateway(
    home: Path, sites: LocalSites, open_runners: OpenRunners
) -> None:
    """After kill -9: the sandbox says why it has no network, and then has it again."""
    script = f"""
        curl -s {sites.url("endless")} >/dev/null; echo "ended with $?" >>log
        curl -s {sites.url("hello")} >>log
        curl -s -x socks5h://127.0.0.1:{PROXY_PORT} {sites.url("hello")} || echo "socks $?" >>log
        touch offline; until [ -e go ]; do sleep 0.02; done
        curl -s {sites.url("hello")} >>log; touch over
    """
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", GATEWAY, str(home), textwrap.dedent(script)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert gateway.stdout is not None
    row = msgspec.json.decode(await gateway.stdout.readline(), type=RunnerRow)
    async with asyncio.timeout(60):
        while not sites.streaming:
            await asyncio.sleep(0.02)
    gateway.send_signal(signal.SIGKILL)
    await gateway.communicate()
    workspace = SessionPaths(home, SESSION_ID).workspace
    await _until_exists(workspace / "offline")
    runners = open_runners(egress=sites.policy)
    assert await runners.adopt([row], needed={SESSION_ID}) == [SESSION_ID]
    await runners.sandbox(SESSION_ID).write_file(CallId("w"), "go", "")
    await _until_exists(workspace / "over")
    lines = (workspace / "log").read_text().splitlines()
    assert lines[0].startswith("ended with ") and lines[0] != "ended with 0"
    assert lines[1:] == [
        "the gateway does not run: there is no network until it is back",
        "socks 97",
        "hello",
    ]


async def test_a_runner_that_keeps_another_network_is_logged(
    open_runners: OpenRunners, runner_log: RunnerLog, caplog: pytest.LogCaptureFixture
) -> None:
    """It survives a change of the setting, with what it had: its processes are not ended."""
    before = open_runners(RunnerSettings(network=NetworkMode.HOST))
    await before.sandbox(SESSION_ID).run(CallId("c"), "true", limit=60)
    await before.detach()
    after = open_runners()
    await after.adopt(list(runner_log.rows.values()), needed={SESSION_ID})
    assert 'keeps the network "host" until it ends' in caplog.text


async def _until_exists(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.02)

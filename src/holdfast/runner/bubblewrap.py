"""How runners are confined: the installed copy of their program, the bubblewrap arguments, and
the probe whether bubblewrap works here."""

import asyncio
import hashlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.core.config.settings import NetworkMode, RunnerSettings, SandboxMode
from holdfast.core.errors import RunnerError
from holdfast.core.ids import SessionId
from holdfast.core.text.translation import N_
from holdfast.runner.cgroups import Cgroups, find_cgroups
from holdfast.runner.paths import SessionPaths
from holdfast.system.bubblewrap import SYSTEM_PATH, bwrap_programs, sandbox_remedy

log = logging.getLogger(__name__)

PROGRAM_SOURCE = Path(__file__).parent / "program"
WORKSPACE = "/workspace"
SPOOL = "/run/holdfast"
PROGRAM = "/opt/holdfast"
EGRESS = "/run/egress"
PROBE_TIMEOUT = 20
INTERNET_TOOLS = ("pasta", "slirp4netns")  # the first that works is used
INTERNET_HINT = "install pasta or slirp4netns (Debian, Ubuntu: apt install passt)"
_INTERNET_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from program.internet import main;"
    " main(sys.argv[2], sys.argv[3:])"
)
SHARED_MEMORY = 64 << 20
MB = 1 << 20
OFF_AS_ROOT_REMEDY = N_(
    "Remove `sandbox` from [runner], or run the gateway as another user. With"
    " `sandbox_off_as_root = true`, commands of agents may do everything on this machine."
)

# User ids above every range that systemd, containers or /etc/subuid assign.
FIRST_USER, USERS = 1_879_048_192, 1 << 27
# For a gateway whose root is itself in a user namespace with 65536 users.
FIRST_GUEST_USER, GUEST_USERS = 20_000, 40_000

# Not the whole of /etc: it has keys, tokens and names of the host.
# fmt: off
ETC_FILES = (
    "resolv.conf", "hosts", "host.conf", "nsswitch.conf", "gai.conf", "services", "protocols",
    "localtime", "timezone", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
    "ca-certificates", "ca-certificates.conf", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
    "pki/ca-trust", "crypto-policies", "mime.types", "os-release", "debian_version", "terminfo",
    "inputrc", "bash.bashrc", "fonts", "perl",
)
# fmt: on


class NetworkUnavailable(RunnerError):
    """The configured network of sandboxes does not work on this machine."""


class ConfinementPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How runners are started on this machine; determined once, by trying."""

    bwrap: str | None  # None: without a sandbox
    python: str
    prefix: str | None  # the interpreter's folder, if it is not in /usr
    program: Path = Path()
    unconfined: bool = False  # commands may run without a sandbox, because the owner set that
    why_unsandboxed: str = ""
    cgroups: Cgroups = Cgroups()
    remedy: str = ""  # where no command may run: what to do (a text to translate)
    internet: str | None = None  # the program behind `network = "internet"`; None: another network

    @property
    def sandboxed(self) -> bool:
        return self.bwrap is not None

    @property
    def runs_commands(self) -> bool:
        """Whether commands and file tools may run here at all."""
        return self.sandboxed or self.unconfined


def install_program(runs: Path, python: str) -> Path:
    """Install a compiled copy of the program, so that a start compiles nothing, wherever the
    package is and whatever its permissions are."""
    sources = sorted(PROGRAM_SOURCE.glob("*.py"))
    digest = hashlib.sha256(python.encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = runs / f".program-{digest.hexdigest()[:16]}"
    if target.exists():
        return target
    runs.mkdir(mode=0o700, exist_ok=True)
    draft = runs / f".draft-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    (draft / "program").mkdir(parents=True)
    for source in sources:
        shutil.copyfile(source, draft / "program" / source.name)
    compile_command = [python, "-I", "-S", "-m", "compileall", "-q", "program"]
    subprocess.run(compile_command, cwd=draft, env={}, check=False, capture_output=True)
    for path in (draft, *draft.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for old in runs.glob(".program-*"):
        shutil.rmtree(old)  # a runner that was started from it has loaded all of it
    draft.rename(target)
    return target


def make_plan(
    settings: RunnerSettings,
    *,
    runs: Path,
    programs: Sequence[str] | None = None,
    system_python: str = "/usr/bin/python3",
) -> ConfinementPlan:
    """Blocks for tens of milliseconds: it runs the interpreter and bubblewrap. The first
    of the bubblewraps that works is used; `programs` None: those of this machine."""
    plan = _python_plan(system_python)
    program = install_program(runs, plan.python)
    plan = msgspec.structs.replace(plan, program=program, cgroups=find_cgroups())
    if settings.sandbox is SandboxMode.OFF:
        return _unconfined_plan(plan, settings)
    found = bwrap_programs() if programs is None else programs
    reasons: list[str] = []
    for candidate in found:
        why = _bwrap_error(plan, settings, candidate)
        if not why:
            plan = msgspec.structs.replace(plan, bwrap=candidate)
            return _internet_plan(plan) if settings.network is NetworkMode.INTERNET else plan
        reasons.append(why)
    return msgspec.structs.replace(
        plan,
        why_unsandboxed=reasons[0] if reasons else N_("bubblewrap is not installed"),
        remedy=sandbox_remedy(installed=bool(found), uid=os.geteuid()),
    )


def _unconfined_plan(plan: ConfinementPlan, settings: RunnerSettings) -> ConfinementPlan:
    if os.geteuid() or settings.sandbox_off_as_root:
        why = N_("runner.sandbox is off")
        return msgspec.structs.replace(plan, unconfined=True, why_unsandboxed=why)
    why = N_("runner.sandbox is off, and the gateway runs as root")
    return msgspec.structs.replace(plan, why_unsandboxed=why, remedy=OFF_AS_ROOT_REMEDY)


def _internet_plan(plan: ConfinementPlan) -> ConfinementPlan:
    """Raises `NetworkUnavailable` where the mode does not work: no other one takes its place."""
    tools = [found for name in INTERNET_TOOLS if (found := shutil.which(name, path=SYSTEM_PATH))]
    why = "neither pasta nor slirp4netns is installed"
    for tool in tools:
        plan = msgspec.structs.replace(plan, internet=tool)
        why = _run_error([*internet_arguments(plan), "/bin/true"])
        if not why:
            return plan
    raise NetworkUnavailable(
        'runner.network = "internet" does not work here: {why}. To fix this: {remedy}. Or set '
        'runner.network = "proxy", which needs neither.',
        why=why,
        remedy=INTERNET_HINT,
    )


def internet_arguments(plan: ConfinementPlan) -> list[str]:
    """The command before that of a sandbox which gives it a network of its own; []: it needs
    none."""
    if plan.internet is None:
        return []
    return [plan.python, "-I", "-S", "-c", _INTERNET_CODE, str(plan.program), plan.internet]


def _python_plan(system: str) -> ConfinementPlan:
    check = "import sys; sys.exit(sys.version_info < (3, 9))"
    if Path(system).exists() and not _run_error([system, "-I", "-S", "-c", check]):
        return ConfinementPlan(bwrap=None, python=system, prefix=None)
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    inside = Path("/usr") in python.parents
    return ConfinementPlan(
        bwrap=None, python=str(python), prefix=None if inside else sys.base_prefix
    )


def _bwrap_error(plan: ConfinementPlan, settings: RunnerSettings, bwrap: str) -> str:
    trial = msgspec.structs.replace(plan, bwrap=bwrap)
    return _run_error([*bwrap_arguments(trial, settings), plan.python, "-I", "-S", "-c", "pass"])


def _run_error(argv: list[str]) -> str:
    """The error of a program that fails; "": it succeeds."""
    try:
        ended = subprocess.run(
            argv, env={}, cwd="/", capture_output=True, timeout=PROBE_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    errors = ended.stderr.decode(errors="replace").strip()
    return (errors or f"{argv[0]} exited with {ended.returncode}") if ended.returncode else ""


def session_uid(session_id: SessionId, uid_map: str) -> int:
    """A user id for each session, so that its process limit counts its own processes only."""
    number = int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:8], "big")
    extents = [tuple(map(int, line.split())) for line in uid_map.splitlines()]
    for first, count in ((FIRST_USER, USERS), (FIRST_GUEST_USER, GUEST_USERS)):
        if any(start <= first and first + count <= start + size for start, _, size in extents):
            return first + number % count
    raise RunnerError(
        "commands cannot be confined: the gateway runs as root in a user namespace "
        "without other users (see /proc/self/uid_map). Run it as another user"
    )


def bwrap_arguments(plan: ConfinementPlan, settings: RunnerSettings) -> list[str]:
    """The bubblewrap arguments that are the same for all sessions."""
    argv = [str(plan.bwrap), "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--hostname", "holdfast", "--as-pid-1"]
    if settings.network in (NetworkMode.PROXY, NetworkMode.NONE):
        argv.append("--unshare-net")
    if os.geteuid():
        argv.append("--unshare-user")
    else:
        argv += ["--cap-drop", "ALL"]
        for name in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            argv += ["--cap-add", name]  # to change to the session's user; dropped after that
    argv += _system_arguments(plan)
    tmp = min(512, max(16, settings.memory_mb // 4)) * MB
    argv += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(tmp)]
    argv += ["--tmpfs", "/tmp", "--symlink", "/tmp", "/var/tmp"]
    return [*argv, "--perms", "1777", "--size", str(SHARED_MEMORY), "--tmpfs", "/dev/shm"]


def _system_arguments(plan: ConfinementPlan) -> list[str]:
    argv = ["--ro-bind", "/usr", "/usr"]
    # Parents that bubblewrap creates implicitly would be accessible to root only.
    parents = reversed(Path(plan.prefix).parents[:-1]) if plan.prefix else ()
    for folder in (
        "/etc",
        "/etc/ssl",
        "/etc/pki",
        "/etc/pki/tls",
        "/run",
        "/opt",
        "/var",
        *parents,
    ):
        argv += ["--perms", "0755", "--dir", str(folder)]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            argv += ["--symlink", os.readlink(name), name]
        else:
            argv += ["--ro-bind-try", name, name]
    for name in ETC_FILES:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    if plan.prefix:
        argv += ["--ro-bind", plan.prefix, plan.prefix]
    return argv


def session_bwrap_arguments(
    plan: ConfinementPlan, settings: RunnerSettings, paths: SessionPaths
) -> list[str]:
    """The bubblewrap command of one session; the arguments after it run inside."""
    argv = [*internet_arguments(plan), *bwrap_arguments(plan, settings)]
    for name in ("passwd", "group"):
        argv += ["--ro-bind", str(paths.run_folder / name), f"/etc/{name}"]
    argv += ["--bind", str(paths.workspace), WORKSPACE, "--bind", str(paths.spool), SPOOL]
    argv += ["--ro-bind", str(plan.program), PROGRAM]
    if settings.network is NetworkMode.PROXY:
        argv += ["--ro-bind", str(paths.egress), EGRESS]
    if plan.internet is not None:
        argv += ["--ro-bind", str(paths.run_folder / "resolv.conf"), "/etc/resolv.conf"]
    # The root and /dev are in the host's memory: commands must not be able to fill them.
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"]


class SandboxProbe:
    """Owns the plan. bubblewrap is tried once for all callers, and again after a failure."""

    def __init__(
        self, settings: RunnerSettings, *, runs: Path, programs: Sequence[str] | None = None
    ) -> None:
        """`programs`: the bubblewraps to try; None: those of this machine."""
        self._settings, self._runs, self._programs = settings, runs, programs
        self._task: asyncio.Task[ConfinementPlan] | None = None
        self.result: ConfinementPlan | None = None

    async def plan(self) -> ConfinementPlan:
        if self._task is None or (self._task.done() and self._task.exception()):
            self._task = asyncio.create_task(self._make())
        return await asyncio.shield(self._task)

    async def _make(self) -> ConfinementPlan:
        plan = await asyncio.to_thread(
            make_plan, self._settings, runs=self._runs, programs=self._programs
        )
        self.result = plan
        if plan.unconfined:
            log.warning(
                "COMMANDS RUN WITHOUT A SANDBOX (%s): they can read and change everything the"
                " gateway can, including its keys and control socket",
                plan.why_unsandboxed,
                extra={"action": "runner_unsandboxed"},
            )
        elif not plan.sandboxed:
            log.warning(
                "No sandbox works here (%s), so agents have no terminal, processes and files. %s",
                plan.why_unsandboxed,
                plan.remedy,
                extra={"action": "runner_without_sandbox"},
            )
        return plan

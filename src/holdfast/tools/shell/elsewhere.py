"""Elsewhere: commands that run another one on another machine, or in a container."""

from collections.abc import Iterator

from holdfast.tools.shell.inner import Nested, NestedCommand, NestedScript
from holdfast.tools.shell.markers import strip_markers
from holdfast.tools.shell.options import parse_options
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState

REMOTE_CWD = "/elsewhere"  # where commands on another machine stand

# fmt: off
_CONTAINER_OPTIONS = (
    "env", "name", "volume", "workdir", "user", "network", "entrypoint", "mount", "publish",
    "env-file", "platform", "memory", "cpus", "label", "hostname", "index", "namespace",
)

# fmt: on


def ssh(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("bcDEeFIiJLlmOopQRSWw", mixed=False)
    for setting in (value for name, value in options.values if name == "o"):
        # These run over here.
        key, _, value = setting.replace("=", " ", 1).partition(" ")
        if key.lower() in ("proxycommand", "localcommand", "knownhostscommand"):
            yield NestedScript(text=value, part=run.excerpt)
    # Options may also stand after the host.
    after = parse_options(options.operands[1:], valued="bcDEeFIiJLlmOopQRSWw", mixed=False)
    text = " ".join(after.operands)
    if text or strip_markers(run.stdin).strip():
        yield NestedScript(text=text or run.stdin, part=run.excerpt, cwd=REMOTE_CWD)


def ansible(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("amiefulMBPtT", ("args", "module-name", "inventory", "user"))
    module = options.value("m", "module-name") or "command"
    text = options.value("a", "args")
    if text and module.rpartition(".")[2] in ("command", "shell", "raw", "script"):
        yield NestedScript(text=text, part=run.excerpt, cwd=REMOTE_CWD)


def container_exec(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    words = [word for word in run.args if word not in ("compose", "container")]
    verb = next((word for word in words if word in ("exec", "run")), None)
    if verb is None:
        return
    rest = words[words.index(verb) + 1 :]
    if "--" in rest:
        yield NestedCommand(words=tuple(rest[rest.index("--") + 1 :]), cwd=REMOTE_CWD)
        return
    options = parse_options(rest, valued="evpwulhmcn", valued_longs=_CONTAINER_OPTIONS, mixed=False)
    # In a container's own disk a command is as well kept as in ours; what it mounts is another
    # rule's affair.
    yield NestedCommand(words=options.operands[1:])

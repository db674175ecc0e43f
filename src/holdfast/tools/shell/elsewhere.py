"""Elsewhere: commands that run another one on another machine, or in a container."""

from collections.abc import Iterator

from holdfast.tools.shell.inner import Argv, Inner, Script
from holdfast.tools.shell.markers import bare
from holdfast.tools.shell.options import read_options
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell

ELSEWHERE = "/elsewhere"  # where commands on another machine stand

# fmt: off
_OF_CONTAINERS = (
    "env", "name", "volume", "workdir", "user", "network", "entrypoint", "mount", "publish",
    "env-file", "platform", "memory", "cpus", "label", "hostname", "index", "namespace",
)

# fmt: on


def ssh(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("bcDEeFIiJLlmOopQRSWw", mixed=False)
    for setting in (value for name, value in options.values if name == "o"):
        # These run over here.
        key, _, value = setting.replace("=", " ", 1).partition(" ")
        if key.lower() in ("proxycommand", "localcommand", "knownhostscommand"):
            yield Script(text=value, part=run.said)
    # Options may also stand after the host.
    after = read_options(options.operands[1:], valued="bcDEeFIiJLlmOopQRSWw", mixed=False)
    text = " ".join(after.operands)
    if text or bare(run.stdin).strip():
        yield Script(text=text or run.stdin, part=run.said, cwd=ELSEWHERE)


def ansible(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("amiefulMBPtT", ("args", "module-name", "inventory", "user"))
    module = options.value("m", "module-name") or "command"
    text = options.value("a", "args")
    if text and module.rpartition(".")[2] in ("command", "shell", "raw", "script"):
        yield Script(text=text, part=run.said, cwd=ELSEWHERE)


def container(run: Run, shell: Shell) -> Iterator[Inner]:
    words = [word for word in run.args if word not in ("compose", "container")]
    verb = next((word for word in words if word in ("exec", "run")), None)
    if verb is None:
        return
    rest = words[words.index(verb) + 1 :]
    if "--" in rest:
        yield Argv(words=tuple(rest[rest.index("--") + 1 :]), cwd=ELSEWHERE)
        return
    options = read_options(rest, valued="evpwulhmcn", valued_longs=_OF_CONTAINERS, mixed=False)
    # In a container's own disk a command is as well kept as in ours; what it mounts is another
    # rule's affair.
    yield Argv(words=options.operands[1:])

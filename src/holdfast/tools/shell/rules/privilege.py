"""Privilege: becoming somebody else, and changing who may."""

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.rules.rule import RunRule, names
from holdfast.tools.shell.run import Run


def _mounts_machine(run: Run) -> bool:
    if not {"run", "create", "exec"} & set(run.args):
        return False
    whole = any(
        word.removeprefix("--volume=").removeprefix("-v").startswith(("/:", "/var/run/docker.sock"))
        or "source=/," in word
        or "src=/," in word
        for word in run.args
    )
    loose = {"--privileged", "--pid=host", "--net=host", "--network=host", "--userns=host"}
    return whole or bool(loose & set(run.args)) or any("SYS_ADMIN" in w for w in run.args)


RULES = (
    RunRule(
        name="become-root",
        level=Level.DANGEROUS,
        why="It would run with the rights of another user, most likely root.",
        programs=names("sudo doas pkexec su runuser sudoedit gksudo run0 dzdo gosu su-exec"),
    ),
    RunRule(
        name="enter-another-root",
        level=Level.DANGEROUS,
        why="It would step into another root or into the namespaces of other processes.",
        programs=names("chroot nsenter pivot_root systemd-nspawn machinectl"),
    ),
    RunRule(
        name="change-users",
        level=Level.DANGEROUS,
        why="It would change who may use this machine, and as what.",
        programs=names(
            "useradd userdel usermod adduser deluser groupadd groupmod groupdel gpasswd passwd"
            " chpasswd visudo vipw chsh newusers dscl"
        ),
        sees=lambda run: run.program != "passwd" or {"-S", "--status"}.isdisjoint(run.args),
    ),
    RunRule(
        name="open-container",
        level=Level.DANGEROUS,
        why="It would run a container that reaches into the machine itself.",
        programs=names("docker podman nerdctl"),
        sees=_mounts_machine,
    ),
)

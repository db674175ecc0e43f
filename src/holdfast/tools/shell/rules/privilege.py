"""Privilege: becoming somebody else, and changing who may."""

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.rules.rule import ProgramRule, word_set
from holdfast.tools.shell.run import ProgramCall


def _is_privileged_container(run: ProgramCall) -> bool:
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


PRIVILEGE_RULES = (
    ProgramRule(
        name="become-root",
        level=CommandRisk.DANGEROUS,
        why="It would run with the rights of another user, most likely root.",
        programs=word_set("sudo doas pkexec su runuser sudoedit gksudo run0 dzdo gosu su-exec"),
    ),
    ProgramRule(
        name="enter-another-root",
        level=CommandRisk.DANGEROUS,
        why="It would step into another root or into the namespaces of other processes.",
        programs=word_set("chroot nsenter pivot_root systemd-nspawn machinectl"),
    ),
    ProgramRule(
        name="change-users",
        level=CommandRisk.DANGEROUS,
        why="It would change who may use this machine, and as what.",
        programs=word_set(
            "useradd userdel usermod adduser deluser groupadd groupmod groupdel gpasswd passwd"
            " chpasswd visudo vipw chsh newusers dscl"
        ),
        matches=lambda run: run.program != "passwd" or {"-S", "--status"}.isdisjoint(run.args),
    ),
    ProgramRule(
        name="open-container",
        level=CommandRisk.DANGEROUS,
        why="It would run a container that reaches into the machine itself.",
        programs=word_set("docker podman nerdctl"),
        matches=_is_privileged_container,
    ),
)

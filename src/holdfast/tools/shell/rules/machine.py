"""The machine: switched off, its services and processes ended, its timetable changed."""

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.outputs import PIDS_BY_NAME
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.rule import PathRule, ProgramRule, word_set
from holdfast.tools.shell.run import PathAction, ProgramCall

_SHUTDOWN_VERBS = word_set(
    "poweroff reboot halt kexec emergency rescue suspend hibernate soft-reboot exit"
    " shutdown isolate"
)
_SERVICE_VERBS = word_set(
    "stop disable mask restart kill enable start reload edit set-default daemon-reexec"
    " try-restart link"
)


def _operands(run: ProgramCall) -> set[str]:
    return set(run.options("tHMsp").operands)


def _kills_all(run: ProgramCall) -> bool:
    words = [word for word in run.args if word != "--"]
    targets = words[1:] if words[:1] and words[0].startswith("-") else words
    return any(word in ("-1", "1") for word in targets) and "-l" not in words


def _sends_signal(run: ProgramCall) -> bool:
    return not {"-l", "-L", "--list", "-0", "--help", "-V"} & set(run.args)


def _sets_runlevel(run: ProgramCall) -> bool:
    return bool({"0", "6", "1", "s", "S"} & set(run.args))


MACHINE_RULES = (
    ProgramRule(
        name="switch-off",
        level=CommandRisk.FORBIDDEN,
        why="It would switch the machine off or start it anew, and end everything on it.",
        programs=word_set("shutdown poweroff reboot halt"),
        matches=lambda run: not {"--help", "-c", "--version"} & set(run.args),
    ),
    ProgramRule(
        name="switch-off-by-service",
        level=CommandRisk.FORBIDDEN,
        why="It would switch the machine off or start it anew, and end everything on it.",
        programs=word_set("systemctl loginctl"),
        matches=lambda run: bool(_SHUTDOWN_VERBS & _operands(run)),
    ),
    ProgramRule(
        name="switch-off-by-init",
        level=CommandRisk.FORBIDDEN,
        why="It would switch the machine off or start it anew, and end everything on it.",
        programs=word_set("init telinit"),
        matches=_sets_runlevel,
    ),
    ProgramRule(
        name="switch-off-by-clock",
        level=CommandRisk.FORBIDDEN,
        why="It would switch the machine off, or put it to sleep.",
        programs=word_set("rtcwake"),
        matches=lambda run: {"no", "on", "show", "--help"}.isdisjoint(run.args),
    ),
    PathRule(
        name="pull-the-plug",
        level=CommandRisk.FORBIDDEN,
        why="It would make the kernel stop the machine at once ({part}).",
        actions=frozenset((PathAction.WRITE,)),
        matches=lambda touch, ground: touch.paths.resolve(touch.path) == "/proc/sysrq-trigger",
    ),
    ProgramRule(
        name="kill-everything",
        level=CommandRisk.FORBIDDEN,
        why="It would end every process that it can reach, and its own session with them.",
        programs=word_set("kill"),
        matches=_kills_all,
    ),
    ProgramRule(
        name="kill-by-name",
        level=CommandRisk.DANGEROUS,
        why="It would end every process with that name, not only those of this session.",
        programs=word_set("pkill killall killall5 skill xkill slay kill"),
        matches=lambda run: (
            (PIDS_BY_NAME in run.args) if run.program == "kill" else _sends_signal(run)
        ),
    ),
    ProgramRule(
        name="kill-by-file",
        level=CommandRisk.DANGEROUS,
        why="It would end whatever process uses that file or port.",
        programs=word_set("fuser"),
        matches=lambda run: run.options("n").has("k", "kill"),
    ),
    ProgramRule(
        name="change-a-service",
        level=CommandRisk.DANGEROUS,
        why="It would stop, start or change a service of the machine.",
        programs=word_set("systemctl launchctl rc-service sv initctl supervisorctl"),
        matches=lambda run: bool(
            _operands(run) & (_SERVICE_VERBS | word_set("load unload bootstrap bootout"))
        ),
    ),
    ProgramRule(
        name="change-a-service-the-old-way",
        level=CommandRisk.DANGEROUS,
        why="It would stop, start or change a service of the machine.",
        programs=word_set("service update-rc.d chkconfig rc-update"),
        matches=lambda run: len(run.args) > 1 and run.args[-1] not in ("status", "--list"),
    ),
    ProgramRule(
        name="timetable",
        level=CommandRisk.DANGEROUS,
        why="It would change what the machine runs by itself, later and again.",
        programs=word_set("crontab"),
        matches=lambda run: not (run.options("u").has("l") and not run.options("u").operands),
    ),
    ProgramRule(
        name="run-later",
        level=CommandRisk.DANGEROUS,
        why="It would have something run later, when nobody looks.",
        programs=word_set("at batch"),
        matches=lambda run: not run.options("qfm").has("lrcd"),
    ),
    ProgramRule(
        name="remove-packages",
        level=CommandRisk.DANGEROUS,
        why="It would remove programs from the machine.",
        programs=word_set("apt apt-get aptitude yum dnf zypper apk pacman dpkg rpm"),
        matches=lambda run: bool(
            word_set("remove purge autoremove erase del -R -Rns -Rs -r -P --purge -e dist-upgrade")
            & set(run.args)
        ),
    ),
    ProgramRule(
        name="kernel-module",
        level=CommandRisk.DANGEROUS,
        why="It would change the running kernel.",
        programs=word_set("insmod rmmod modprobe kexec"),
    ),
    ProgramRule(
        name="mine-coins",
        level=CommandRisk.DANGEROUS,
        why="It would spend this machine's power on somebody's coins.",
        programs=word_set("xmrig minerd cgminer bfgminer cpuminer"),
    ),
    PathRule(
        name="hardware-settings",
        level=CommandRisk.DANGEROUS,
        why="It would change the settings of the running kernel ({part}).",
        actions=frozenset((PathAction.WRITE,)),
        matches=lambda touch, ground: (
            ground == PathLocation.SYSTEM
            and touch.paths.resolve(touch.path).startswith(("/proc/sys", "/sys/"))
        ),
    ),
)

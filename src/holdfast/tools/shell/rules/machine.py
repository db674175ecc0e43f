"""The machine: switched off, its services and processes ended, its timetable changed."""

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.outputs import BY_NAME
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.rules.rule import PathRule, RunRule, names
from holdfast.tools.shell.run import Deed, Run

_OFF = names(
    "poweroff reboot halt kexec emergency rescue suspend hibernate soft-reboot exit"
    " shutdown isolate"
)
_SERVICE_VERBS = names(
    "stop disable mask restart kill enable start reload edit set-default daemon-reexec"
    " try-restart link"
)


def _says(run: Run) -> set[str]:
    return set(run.options("tHMsp").operands)


def _kills_all(run: Run) -> bool:
    words = [word for word in run.args if word != "--"]
    targets = words[1:] if words[:1] and words[0].startswith("-") else words
    return any(word in ("-1", "1") for word in targets) and "-l" not in words


def _signals(run: Run) -> bool:
    return not {"-l", "-L", "--list", "-0", "--help", "-V"} & set(run.args)


def _runs_level(run: Run) -> bool:
    return bool({"0", "6", "1", "s", "S"} & set(run.args))


RULES = (
    RunRule(
        name="switch-off",
        level=Level.HOPELESS,
        why="It would switch the machine off or start it anew, and end everything on it.",
        programs=names("shutdown poweroff reboot halt"),
        sees=lambda run: not {"--help", "-c", "--version"} & set(run.args),
    ),
    RunRule(
        name="switch-off-by-service",
        level=Level.HOPELESS,
        why="It would switch the machine off or start it anew, and end everything on it.",
        programs=names("systemctl loginctl"),
        sees=lambda run: bool(_OFF & _says(run)),
    ),
    RunRule(
        name="switch-off-by-init",
        level=Level.HOPELESS,
        why="It would switch the machine off or start it anew, and end everything on it.",
        programs=names("init telinit"),
        sees=_runs_level,
    ),
    RunRule(
        name="switch-off-by-clock",
        level=Level.HOPELESS,
        why="It would switch the machine off, or put it to sleep.",
        programs=names("rtcwake"),
        sees=lambda run: {"no", "on", "show", "--help"}.isdisjoint(run.args),
    ),
    PathRule(
        name="pull-the-plug",
        level=Level.HOPELESS,
        why="It would make the kernel stop the machine at once ({part}).",
        deeds=frozenset((Deed.WRITE,)),
        sees=lambda touch, ground: touch.place.resolve(touch.path) == "/proc/sysrq-trigger",
    ),
    RunRule(
        name="kill-everything",
        level=Level.HOPELESS,
        why="It would end every process that it can reach, and its own session with them.",
        programs=names("kill"),
        sees=_kills_all,
    ),
    RunRule(
        name="kill-by-name",
        level=Level.DANGEROUS,
        why="It would end every process with that name, not only those of this session.",
        programs=names("pkill killall killall5 skill xkill slay kill"),
        sees=lambda run: (BY_NAME in run.args) if run.program == "kill" else _signals(run),
    ),
    RunRule(
        name="kill-by-file",
        level=Level.DANGEROUS,
        why="It would end whatever process uses that file or port.",
        programs=names("fuser"),
        sees=lambda run: run.options("n").has("k", "kill"),
    ),
    RunRule(
        name="change-a-service",
        level=Level.DANGEROUS,
        why="It would stop, start or change a service of the machine.",
        programs=names("systemctl launchctl rc-service sv initctl supervisorctl"),
        sees=lambda run: bool(
            _says(run) & (_SERVICE_VERBS | names("load unload bootstrap bootout"))
        ),
    ),
    RunRule(
        name="change-a-service-the-old-way",
        level=Level.DANGEROUS,
        why="It would stop, start or change a service of the machine.",
        programs=names("service update-rc.d chkconfig rc-update"),
        sees=lambda run: len(run.args) > 1 and run.args[-1] not in ("status", "--list"),
    ),
    RunRule(
        name="timetable",
        level=Level.DANGEROUS,
        why="It would change what the machine runs by itself, later and again.",
        programs=names("crontab"),
        sees=lambda run: not (run.options("u").has("l") and not run.options("u").operands),
    ),
    RunRule(
        name="run-later",
        level=Level.DANGEROUS,
        why="It would have something run later, when nobody looks.",
        programs=names("at batch"),
        sees=lambda run: not run.options("qfm").has("lrcd"),
    ),
    RunRule(
        name="remove-packages",
        level=Level.DANGEROUS,
        why="It would remove programs from the machine.",
        programs=names("apt apt-get aptitude yum dnf zypper apk pacman dpkg rpm"),
        sees=lambda run: bool(
            names("remove purge autoremove erase del -R -Rns -Rs -r -P --purge -e dist-upgrade")
            & set(run.args)
        ),
    ),
    RunRule(
        name="kernel-module",
        level=Level.DANGEROUS,
        why="It would change the running kernel.",
        programs=names("insmod rmmod modprobe kexec"),
    ),
    RunRule(
        name="mine-coins",
        level=Level.DANGEROUS,
        why="It would spend this machine's power on somebody's coins.",
        programs=names("xmrig minerd cgminer bfgminer cpuminer"),
    ),
    PathRule(
        name="hardware-settings",
        level=Level.DANGEROUS,
        why="It would change the settings of the running kernel ({part}).",
        deeds=frozenset((Deed.WRITE,)),
        sees=lambda touch, ground: (
            ground == Ground.SYSTEM
            and touch.place.resolve(touch.path).startswith(("/proc/sys", "/sys/"))
        ),
    ),
)

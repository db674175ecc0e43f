"""Rules about the machine: disks, shutdown, services, processes, packages, privileges,
protections."""

import re

from holdfast.core.people.approval import CommandRisk
from holdfast.core.text.translation import N_
from holdfast.tools.shell.invocation import PathAction, ProgramCall
from holdfast.tools.shell.outputs import PIDS_BY_NAME
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.base import PathRule, ProgramRule, word_set

_FORMATTERS = word_set(
    "mkfs mke2fs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs"
    " mkfs.exfat mkfs.f2fs mkfs.minix mkdosfs mkntfs newfs mkswap wipefs blkdiscard luksFormat"
)
_PARTITION_TOOLS = word_set(
    "fdisk sfdisk cfdisk gdisk sgdisk parted hdparm nvme cryptsetup badblocks shred"
)
_PARTITION_CHANGES = word_set(
    "-Z --zap --zap-all -o mklabel mktable rm mkpart --delete --security-erase format luksFormat"
    " erase luksErase -w --trim-sector-ranges sanitize --wipe"
)
_ENDLESS_SOURCES = ("/dev/zero", "/dev/urandom", "/dev/random")


def _on_device(run: ProgramCall) -> bool:
    return any(run.paths.locate(word) == PathLocation.DEVICE for word in run.args if "/" in word)


def _erases_device(run: ProgramCall) -> bool:
    destructive = run.program == "shred" or not _PARTITION_CHANGES.isdisjoint(run.args)
    return destructive and _on_device(run)


def _may_repartition(run: ProgramCall) -> bool:
    return _on_device(run) and not {"-l", "--list", "print", "-p", "-I", "--print"} & set(run.args)


def _fills_disk(run: ProgramCall) -> bool:
    if run.program == "dd":
        words = dict(word.partition("=")[::2] for word in run.args)
        endless = words.get("if", "") in _ENDLESS_SOURCES and "count" not in words
        return endless and words.get("of", "/dev/null") != "/dev/null"
    return False


DISK_RULES = (
    PathRule(
        name="write-to-a-disk",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would overwrite a disk or device of the machine ({part})."),
        actions=frozenset((PathAction.WRITE, PathAction.DELETE)),
        matches=lambda touch, ground: ground == PathLocation.DEVICE,
    ),
    PathRule(
        name="read-a-disk",
        level=CommandRisk.DANGEROUS,
        why=N_("It would read a disk or device of the machine directly ({part})."),
        actions=frozenset((PathAction.READ,)),
        matches=lambda touch, ground: ground == PathLocation.DEVICE,
    ),
    ProgramRule(
        name="format-a-disk",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would format a disk and delete everything on it."),
        programs=_FORMATTERS,
        matches=_on_device,
    ),
    ProgramRule(
        name="cut-up-a-disk",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would erase a disk or its partition table."),
        programs=_PARTITION_TOOLS,
        matches=_erases_device,
    ),
    ProgramRule(
        name="erase-a-disk",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would erase a disk."),
        programs=word_set("diskutil"),
        matches=lambda run: any(word.lower().startswith("erase") for word in run.args),
    ),
    ProgramRule(
        name="change-a-disk",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the partitions of a disk."),
        programs=_PARTITION_TOOLS - {"shred"},
        matches=_may_repartition,
    ),
    ProgramRule(
        name="remove-a-volume",
        level=CommandRisk.DANGEROUS,
        why=N_("It would remove a volume and everything on it."),
        programs=word_set("lvremove vgremove pvremove lvreduce"),
    ),
    ProgramRule(
        name="destroy-a-pool",
        level=CommandRisk.DANGEROUS,
        why=N_("It would destroy a file system and everything on it."),
        programs=word_set("zpool zfs btrfs mdadm"),
        matches=lambda run: bool({"destroy", "delete", "--zero-superblock"} & set(run.args)),
    ),
    ProgramRule(
        name="fill-the-disk",
        level=CommandRisk.DANGEROUS,
        why=N_("It would write until the disk is full."),
        programs=word_set("dd"),
        matches=_fills_disk,
    ),
    ProgramRule(
        name="mount",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change which file systems are mounted."),
        programs=word_set("mount umount losetup swapoff"),
        matches=lambda run: bool(run.options("toLU").operands) or "-a" in run.args,
    ),
)


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
        why=N_("It would shut down or restart the machine, and end everything on it."),
        programs=word_set("shutdown poweroff reboot halt"),
        matches=lambda run: not {"--help", "-c", "--version"} & set(run.args),
    ),
    ProgramRule(
        name="switch-off-by-service",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would shut down or restart the machine, and end everything on it."),
        programs=word_set("systemctl loginctl"),
        matches=lambda run: bool(_SHUTDOWN_VERBS & _operands(run)),
    ),
    ProgramRule(
        name="switch-off-by-init",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would shut down or restart the machine, and end everything on it."),
        programs=word_set("init telinit"),
        matches=_sets_runlevel,
    ),
    ProgramRule(
        name="switch-off-by-clock",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would shut down the machine or suspend it."),
        programs=word_set("rtcwake"),
        matches=lambda run: {"no", "on", "show", "--help"}.isdisjoint(run.args),
    ),
    PathRule(
        name="pull-the-plug",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would make the kernel stop the machine at once ({part})."),
        actions=frozenset((PathAction.WRITE,)),
        matches=lambda touch, ground: touch.paths.resolve(touch.path) == "/proc/sysrq-trigger",
    ),
    ProgramRule(
        name="kill-everything",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would end every process that it can reach, and its own session with them."),
        programs=word_set("kill"),
        matches=_kills_all,
    ),
    ProgramRule(
        name="kill-by-name",
        level=CommandRisk.DANGEROUS,
        why=N_("It would end every process with that name, not only those of this session."),
        programs=word_set("pkill killall killall5 skill xkill slay kill"),
        matches=lambda run: (
            (PIDS_BY_NAME in run.args) if run.program == "kill" else _sends_signal(run)
        ),
    ),
    ProgramRule(
        name="kill-by-file",
        level=CommandRisk.DANGEROUS,
        why=N_("It would end any process that uses that file or port."),
        programs=word_set("fuser"),
        matches=lambda run: run.options("n").has("k", "kill"),
    ),
    ProgramRule(
        name="change-a-service",
        level=CommandRisk.DANGEROUS,
        why=N_("It would stop, start or change a service of the machine."),
        programs=word_set("systemctl launchctl rc-service sv initctl supervisorctl"),
        matches=lambda run: bool(
            _operands(run) & (_SERVICE_VERBS | word_set("load unload bootstrap bootout"))
        ),
    ),
    ProgramRule(
        name="change-a-service-the-old-way",
        level=CommandRisk.DANGEROUS,
        why=N_("It would stop, start or change a service of the machine."),
        programs=word_set("service update-rc.d chkconfig rc-update"),
        matches=lambda run: len(run.args) > 1 and run.args[-1] not in ("status", "--list"),
    ),
    ProgramRule(
        name="timetable",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change what the machine runs automatically."),
        programs=word_set("crontab"),
        matches=lambda run: not (run.options("u").has("l") and not run.options("u").operands),
    ),
    ProgramRule(
        name="run-later",
        level=CommandRisk.DANGEROUS,
        why=N_("It would schedule a command to run later, unattended."),
        programs=word_set("at batch"),
        matches=lambda run: not run.options("qfm").has("lrcd"),
    ),
    ProgramRule(
        name="remove-packages",
        level=CommandRisk.DANGEROUS,
        why=N_("It would remove programs from the machine."),
        programs=word_set("apt apt-get aptitude yum dnf zypper apk pacman dpkg rpm"),
        matches=lambda run: bool(
            word_set("remove purge autoremove erase del -R -Rns -Rs -r -P --purge -e dist-upgrade")
            & set(run.args)
        ),
    ),
    ProgramRule(
        name="kernel-module",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the running kernel."),
        programs=word_set("insmod rmmod modprobe kexec"),
    ),
    ProgramRule(
        name="mine-coins",
        level=CommandRisk.DANGEROUS,
        why=N_("It would mine cryptocurrency on this machine."),
        programs=word_set("xmrig minerd cgminer bfgminer cpuminer"),
    ),
    PathRule(
        name="hardware-settings",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the settings of the running kernel ({part})."),
        actions=frozenset((PathAction.WRITE,)),
        matches=lambda touch, ground: (
            ground == PathLocation.SYSTEM
            and touch.paths.resolve(touch.path).startswith(("/proc/sys", "/sys/"))
        ),
    ),
)


def _is_privileged_container(run: ProgramCall) -> bool:
    if not {"run", "create", "exec"} & set(run.args):
        return False
    whole = any(
        word.removeprefix("--volume=").removeprefix("-v").startswith(("/:", "/var/run/docker.sock"))
        or ".sock:" in word
        or "source=/," in word
        or "src=/," in word
        for word in run.args
    )
    loose = {"--privileged", "--pid=host", "--net=host", "--network=host", "--userns=host"}
    return whole or bool(loose & set(run.args)) or any("SYS_ADMIN" in w for w in run.args)


_PRIVILEGED_POD = re.compile(
    r"\"(?:privileged|hostPID|hostNetwork|hostIPC)\"\s*:\s*true|\"hostPath\"|allowPrivilegeEscalation\"\s*:\s*true"
)


def _opens_pod(run: ProgramCall) -> bool:
    text = " ".join(run.args)
    return _PRIVILEGED_POD.search(text) is not None or (
        "debug" in run.args and any(word.startswith("node/") for word in run.args)
    )


def _opens_system_container(run: ProgramCall) -> bool:
    text = " ".join(run.args)
    return "security.privileged=true" in text or "security.nesting" in text or "source=/" in text


PRIVILEGE_RULES = (
    ProgramRule(
        name="become-root",
        level=CommandRisk.DANGEROUS,
        why=N_("It would run with the rights of another user, most likely root."),
        programs=word_set("sudo doas pkexec su runuser sudoedit gksudo run0 dzdo gosu su-exec"),
    ),
    ProgramRule(
        name="enter-another-root",
        level=CommandRisk.DANGEROUS,
        why=N_("It would enter another root folder or the namespaces of other processes."),
        programs=word_set("chroot nsenter pivot_root systemd-nspawn machinectl"),
    ),
    ProgramRule(
        name="change-users",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the users of this machine or their rights."),
        programs=word_set(
            "useradd userdel usermod adduser deluser groupadd groupmod groupdel gpasswd passwd"
            " chpasswd visudo vipw chsh newusers dscl"
        ),
        matches=lambda run: run.program != "passwd" or {"-S", "--status"}.isdisjoint(run.args),
    ),
    ProgramRule(
        name="open-pod",
        level=CommandRisk.DANGEROUS,
        why=N_("It would run a container with access to the machine itself."),
        programs=word_set("kubectl oc"),
        matches=_opens_pod,
    ),
    ProgramRule(
        name="open-system-container",
        level=CommandRisk.DANGEROUS,
        why=N_("It would run a container with access to the machine itself."),
        programs=word_set("lxc incus"),
        matches=_opens_system_container,
    ),
    ProgramRule(
        name="open-container",
        level=CommandRisk.DANGEROUS,
        why=N_("It would run a container with access to the machine itself."),
        programs=word_set("docker podman nerdctl"),
        matches=_is_privileged_container,
    ),
)


_NETWORK_VERBS = word_set("add del delete replace change flush set append")


def _changes_network(run: ProgramCall) -> bool:
    words = [word for word in run.args if not word.startswith("-")]
    if run.program == "ip":
        return bool(words[1:2]) and words[1] in _NETWORK_VERBS
    if run.program == "arp":
        return bool({"-s", "-d", "--set", "--delete"} & set(run.args))
    if run.program == "tc":
        return bool(_NETWORK_VERBS & set(words[1:2]))
    return len(words) > 1 and words[0] not in ("-n", "show", "get", "print")


def _sets_machine(run: ProgramCall) -> bool:
    """The name, the clock or the language of the machine."""
    if run.program == "date":
        options = run.options("dfrI", ("date", "file", "reference", "set"))
        return options.has("s", "set")
    if run.program == "hwclock":
        return bool({"-w", "-s", "--systohc", "--hctosys", "--set"} & set(run.args))
    if run.program == "hostname":
        return bool(run.options("F").operands) or run.options("F").value("F") is not None
    return any(
        word.startswith("set-") or (word == "hostname" and len(run.args) > 1) for word in run.args
    )


def _changes_links(run: ProgramCall) -> bool:
    return bool(
        {"--set", "--install", "--remove", "--auto", "--config", "--add", "--divert"}
        & set(run.args)
    )


_HELPS = frozenset(("--help", "-h", "--version", "-p", "--print-cache", "-V"))


def _replaces_libraries(run: ProgramCall) -> bool:
    return not _HELPS & set(run.args)


_LATER = (
    "--on-calendar",
    "--on-boot",
    "--on-active",
    "--on-startup",
    "--on-unit",
    "--timer-property",
)


SYSTEM_SETTING_RULES = (
    ProgramRule(
        name="change-the-network",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change how the machine reaches the network."),
        programs=word_set("ip route ifconfig arp tc iwconfig brctl ethtool"),
        matches=_changes_network,
    ),
    ProgramRule(
        name="change-the-machine",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the name, the clock or the language of the machine."),
        programs=word_set("hostnamectl timedatectl localectl date hwclock hostname domainname"),
        matches=_sets_machine,
    ),
    ProgramRule(
        name="change-system-programs",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change which programs the machine uses for its commands."),
        programs=word_set("update-alternatives alternatives dpkg-divert"),
        matches=_changes_links,
    ),
    ProgramRule(
        name="change-system-trust",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change which libraries or certificates all programs trust."),
        programs=word_set("ldconfig update-ca-certificates update-ca-trust trust mkcert certutil"),
        matches=_replaces_libraries,
    ),
    ProgramRule(
        name="change-security-policy",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change what the machine allows its programs and users to do."),
        programs=word_set(
            "semanage setsebool semodule apparmor_parser faillock chage pam-auth-update authselect"
            " dpkg-reconfigure debconf-set-selections grubby update-grub grub-install efibootmgr"
            " bootctl fwupdmgr flashrom dpkg-statoverride"
        ),
    ),
    ProgramRule(
        name="read-the-memory",
        level=CommandRisk.DANGEROUS,
        why=N_("It would read the memory of a running process, with all secrets in it."),
        programs=word_set("gcore procdump memdump avml"),
    ),
    ProgramRule(
        name="listen-to-the-network",
        level=CommandRisk.DANGEROUS,
        why=N_("It would record what other programs send and receive."),
        programs=word_set(
            "ettercap bettercap dsniff arpspoof responder mitmproxy mitmdump sslstrip"
        ),
    ),
    ProgramRule(
        name="run-by-timer",
        level=CommandRisk.DANGEROUS,
        why=N_("It would schedule a command to run later, unattended."),
        programs=word_set("systemd-run"),
        matches=lambda run: any(word.startswith(_LATER) for word in run.args),
    ),
)


def _changes_firewall(run: ProgramCall) -> bool:
    words = set(run.args)
    looking = {"-L", "-S", "--list", "--list-rules", "status", "list", "-n", "--state"}
    return bool(words) and not looking & words


def _disables_tls_check(run: ProgramCall) -> bool:
    said = " ".join(run.args).lower()
    return any(
        text in said for text in ("strict-ssl false", "strict-ssl=false", "http.sslverify false")
    )


SECURITY_RULES = (
    ProgramRule(
        name="change-the-firewall",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the firewall."),
        programs=word_set("ufw iptables ip6tables nft firewall-cmd pfctl ebtables"),
        matches=_changes_firewall,
    ),
    ProgramRule(
        name="switch-off-protection",
        level=CommandRisk.DANGEROUS,
        why=N_("It would switch off a protection of the machine."),
        programs=word_set("setenforce aa-disable aa-teardown aa-complain csrutil spctl auditctl"),
    ),
    ProgramRule(
        name="kernel-settings",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the settings of the running kernel."),
        programs=word_set("sysctl"),
        matches=lambda run: (
            bool({"-w", "--write", "-p", "--system"} & set(run.args))
            or any("=" in word for word in run.args)
        ),
    ),
    ProgramRule(
        name="forget-history",
        level=CommandRisk.DANGEROUS,
        why=N_("It would remove the record of the commands that were run."),
        programs=word_set("history"),
        matches=lambda run: run.options("d").has("cdw"),
    ),
    ProgramRule(
        name="trust-anybody",
        level=CommandRisk.DANGEROUS,
        why=N_("It would switch off the verification of the other side for all later connections."),
        programs=word_set("npm yarn pnpm git pip conda"),
        matches=lambda run: bool({"config", "set"} & set(run.args)) and _disables_tls_check(run),
    ),
    ProgramRule(
        name="empty-a-log",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete logs of the machine."),
        programs=word_set("journalctl logrotate"),
        matches=lambda run: (
            any(word.startswith("--vacuum") or word == "-f" for word in run.args)
            and any(word.startswith("--vacuum") for word in run.args)
        ),
    ),
)

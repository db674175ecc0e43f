"""Disks: written over, formatted, cut up or filled."""

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.rule import PathRule, ProgramRule, word_set
from holdfast.tools.shell.run import PathAction, ProgramCall

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
    wanted = run.program == "shred" or not _PARTITION_CHANGES.isdisjoint(run.args)
    return wanted and _on_device(run)


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
        why="It would write over a disk or device of the machine ({part}).",
        actions=frozenset((PathAction.WRITE, PathAction.DELETE)),
        matches=lambda touch, ground: ground == PathLocation.DEVICE,
    ),
    PathRule(
        name="read-a-disk",
        level=CommandRisk.DANGEROUS,
        why="It would read a disk or device of the machine directly ({part}).",
        actions=frozenset((PathAction.READ,)),
        matches=lambda touch, ground: ground == PathLocation.DEVICE,
    ),
    ProgramRule(
        name="format-a-disk",
        level=CommandRisk.FORBIDDEN,
        why="It would put an empty file system on a disk and lose what is on it.",
        programs=_FORMATTERS,
        matches=_on_device,
    ),
    ProgramRule(
        name="cut-up-a-disk",
        level=CommandRisk.FORBIDDEN,
        why="It would erase a disk or the table of its parts.",
        programs=_PARTITION_TOOLS,
        matches=_erases_device,
    ),
    ProgramRule(
        name="erase-a-disk",
        level=CommandRisk.FORBIDDEN,
        why="It would erase a disk.",
        programs=word_set("diskutil"),
        matches=lambda run: any(word.lower().startswith("erase") for word in run.args),
    ),
    ProgramRule(
        name="change-a-disk",
        level=CommandRisk.DANGEROUS,
        why="It would change how a disk is divided.",
        programs=_PARTITION_TOOLS - {"shred"},
        matches=_may_repartition,
    ),
    ProgramRule(
        name="remove-a-volume",
        level=CommandRisk.DANGEROUS,
        why="It would remove a volume and what is on it.",
        programs=word_set("lvremove vgremove pvremove lvreduce"),
    ),
    ProgramRule(
        name="destroy-a-pool",
        level=CommandRisk.DANGEROUS,
        why="It would destroy a file system and what is on it.",
        programs=word_set("zpool zfs btrfs mdadm"),
        matches=lambda run: bool({"destroy", "delete", "--zero-superblock"} & set(run.args)),
    ),
    ProgramRule(
        name="fill-the-disk",
        level=CommandRisk.DANGEROUS,
        why="It would write without end until the disk is full.",
        programs=word_set("dd"),
        matches=_fills_disk,
    ),
    ProgramRule(
        name="mount",
        level=CommandRisk.DANGEROUS,
        why="It would change what is mounted where.",
        programs=word_set("mount umount losetup swapoff"),
        matches=lambda run: bool(run.options("toLU").operands) or "-a" in run.args,
    ),
)

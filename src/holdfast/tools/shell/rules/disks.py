"""Disks: written over, formatted, cut up or filled."""

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.rules.rule import PathRule, RunRule, names
from holdfast.tools.shell.run import Deed, Run

_MAKERS = names(
    "mkfs mke2fs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs"
    " mkfs.exfat mkfs.f2fs mkfs.minix mkdosfs mkntfs newfs mkswap wipefs blkdiscard luksFormat"
)
_CUTTERS = names("fdisk sfdisk cfdisk gdisk sgdisk parted hdparm nvme cryptsetup badblocks shred")
_CUTS = names(
    "-Z --zap --zap-all -o mklabel mktable rm mkpart --delete --security-erase format luksFormat"
    " erase luksErase -w --trim-sector-ranges sanitize --wipe"
)
_ENDLESS = ("/dev/zero", "/dev/urandom", "/dev/random")


def _on_device(run: Run) -> bool:
    return any(run.place.ground(word) == Ground.DEVICE for word in run.args if "/" in word)


def _cuts_device(run: Run) -> bool:
    wanted = run.program == "shred" or not _CUTS.isdisjoint(run.args)
    return wanted and _on_device(run)


def _may_cut(run: Run) -> bool:
    return _on_device(run) and not {"-l", "--list", "print", "-p", "-I", "--print"} & set(run.args)


def _fills(run: Run) -> bool:
    if run.program == "dd":
        words = dict(word.partition("=")[::2] for word in run.args)
        endless = words.get("if", "") in _ENDLESS and "count" not in words
        return endless and words.get("of", "/dev/null") != "/dev/null"
    return False


RULES = (
    PathRule(
        name="write-to-a-disk",
        level=Level.HOPELESS,
        why="It would write over a disk or device of the machine ({part}).",
        deeds=frozenset((Deed.WRITE, Deed.DELETE)),
        sees=lambda touch, ground: ground == Ground.DEVICE,
    ),
    PathRule(
        name="read-a-disk",
        level=Level.DANGEROUS,
        why="It would read a disk or device of the machine directly ({part}).",
        deeds=frozenset((Deed.READ,)),
        sees=lambda touch, ground: ground == Ground.DEVICE,
    ),
    RunRule(
        name="format-a-disk",
        level=Level.HOPELESS,
        why="It would put an empty file system on a disk and lose what is on it.",
        programs=_MAKERS,
        sees=_on_device,
    ),
    RunRule(
        name="cut-up-a-disk",
        level=Level.HOPELESS,
        why="It would erase a disk or the table of its parts.",
        programs=_CUTTERS,
        sees=_cuts_device,
    ),
    RunRule(
        name="erase-a-disk",
        level=Level.HOPELESS,
        why="It would erase a disk.",
        programs=names("diskutil"),
        sees=lambda run: any(word.lower().startswith("erase") for word in run.args),
    ),
    RunRule(
        name="change-a-disk",
        level=Level.DANGEROUS,
        why="It would change how a disk is divided.",
        programs=_CUTTERS - {"shred"},
        sees=_may_cut,
    ),
    RunRule(
        name="remove-a-volume",
        level=Level.DANGEROUS,
        why="It would remove a volume and what is on it.",
        programs=names("lvremove vgremove pvremove lvreduce"),
    ),
    RunRule(
        name="destroy-a-pool",
        level=Level.DANGEROUS,
        why="It would destroy a file system and what is on it.",
        programs=names("zpool zfs btrfs mdadm"),
        sees=lambda run: bool({"destroy", "delete", "--zero-superblock"} & set(run.args)),
    ),
    RunRule(
        name="fill-the-disk",
        level=Level.DANGEROUS,
        why="It would write without end until the disk is full.",
        programs=names("dd"),
        sees=_fills,
    ),
    RunRule(
        name="mount",
        level=Level.DANGEROUS,
        why="It would change what is mounted where.",
        programs=names("mount umount losetup swapoff"),
        sees=lambda run: bool(run.options("toLU").operands) or "-a" in run.args,
    ),
)

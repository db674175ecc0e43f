"""Confinement: the privileges that the runner drops before it serves, and the limits of what it
starts.

A seccomp filter refuses the system calls that no command needs and that have led out of sandboxes,
and every new namespace: in a user namespace of its own, a command would be root and could mount
memory that no limit counts. A filter needs no privilege and holds for all that is started below.
`clone3` hides its flags from a filter; without it libraries fall back to `clone`.
"""

from __future__ import annotations

import errno
import os
import resource
import struct
from typing import Any

from . import kernel

LIMITS = {
    "processes": resource.RLIMIT_NPROC,
    "memory": resource.RLIMIT_DATA,
    "file": resource.RLIMIT_FSIZE,
    "core": resource.RLIMIT_CORE,
    "descriptors": resource.RLIMIT_NOFILE,
}
NICENESS = 5
OOM_SCORE = b"500"


def drop_root(uid: int) -> None:
    """Become `uid` for good: no group, no capability, no way back."""
    kernel.drop_bounding_set()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.drop_capabilities()


def confine(uid: int | None) -> None:
    if uid is not None:
        drop_root(uid)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    # What runs below shares our user: without this it could open our descriptors in /proc
    # and speak to the gateway in our name.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    # As pid 1 orphans come to us anyway; without a sandbox they come only by this.
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    os.umask(0o022)


def limit_this_process(limits: dict[str, Any]) -> None:
    """For children alone: the runner must be able to fork while a bomb has used up the rest."""
    for name, number in LIMITS.items():
        if limits[name] is None:
            continue
        limit = int(limits[name])
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(number, (limit, limit))
    os.nice(NICENESS)
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(OOM_SCORE)
    except OSError:
        return


# Every CLONE_NEW… flag of clone and unshare. Not that of time (0x80): for clone it is a signal.
NEW_NAMESPACES = 0x7E020000
NEW_TIME = 0x80
CLONE3 = 435  # on every architecture
ADDRESS_FAMILIES = (38, 40)  # AF_ALG, and AF_VSOCK, which leads to the hypervisor past any network
SOCKETCALL_SOCKET = 1
# The kernel's id of an architecture, and its numbers of the calls whose arguments decide.
ARCHITECTURES = (
    # id, clone, unshare, socket, socketcall
    (0xC000003E, 56, 272, 41, None),  # x86_64
    (0x40000003, 120, 310, 359, 102),  # i386
    (0xC00000B7, 220, 97, 198, None),  # aarch64
    (0x40000028, 120, 337, 281, None),  # arm
)
# The calls that Docker's default profile denies to a process without capabilities, with their
# numbers in the order of `ARCHITECTURES`. ptrace is allowed, as it is there since Linux 4.8:
# debuggers work on the session's own processes, and on no other. (Decision 83.)
# fmt: off
DENIED_CALLS: dict[str, tuple[int | None, ...]] = {
    # mounts and namespaces
    "mount": (165, 21, 40, 21), "umount": (None, 22, None, None), "umount2": (166, 52, 39, 52),
    "pivot_root": (155, 217, 41, 218), "setns": (308, 346, 268, 375),
    "open_tree": (428, 428, 428, 428), "move_mount": (429, 429, 429, 429),
    "fsopen": (430, 430, 430, 430), "fsconfig": (431, 431, 431, 431),
    "fsmount": (432, 432, 432, 432), "fspick": (433, 433, 433, 433),
    "mount_setattr": (442, 442, 442, 442), "open_tree_attr": (467, 467, 467, 467),
    "sethostname": (170, 74, 161, 74), "setdomainname": (171, 121, 162, 121),
    "open_by_handle_at": (304, 342, 265, 371), "fanotify_init": (300, 338, 262, 367),
    # large parts of the kernel that have had many holes
    "bpf": (321, 357, 280, 386), "perf_event_open": (298, 336, 241, 364),
    "userfaultfd": (323, 374, 282, 388),
    "io_uring_setup": (425, 425, 425, 425), "io_uring_enter": (426, 426, 426, 426),
    "io_uring_register": (427, 427, 427, 427),
    # keyrings, which no namespace separates
    "add_key": (248, 286, 217, 309), "request_key": (249, 287, 218, 310),
    "keyctl": (250, 288, 219, 311),
    # the kernel itself
    "kexec_load": (246, 283, 104, 347), "kexec_file_load": (320, None, 294, 401),
    "init_module": (175, 128, 105, 128), "finit_module": (313, 350, 273, 379),
    "delete_module": (176, 129, 106, 129), "create_module": (174, 127, None, None),
    "query_module": (178, 167, None, None), "get_kernel_syms": (177, 130, None, None),
    "reboot": (169, 88, 142, 88), "syslog": (103, 103, 116, 103),
    "swapon": (167, 87, 224, 87), "swapoff": (168, 115, 225, 115), "acct": (163, 51, 89, 51),
    "quotactl": (179, 131, 60, 131), "quotactl_fd": (443, 443, 443, 443),
    "iopl": (172, 110, None, None), "ioperm": (173, 101, None, None),
    "vm86": (None, 166, None, None), "vm86old": (None, 113, None, None),
    "vhangup": (153, 111, 58, 111),
    # the clock, which no namespace separates
    "settimeofday": (164, 79, 170, 79), "stime": (None, 25, None, None),
    "clock_settime": (227, 264, 112, 262), "clock_settime64": (None, 404, None, 404),
    "clock_adjtime": (305, 343, 266, 372), "clock_adjtime64": (None, 405, None, 405),
    # memory of other processes and nodes
    "mbind": (237, 274, 235, 319), "set_mempolicy": (238, 276, 237, 321),
    "get_mempolicy": (239, 275, 236, 320), "set_mempolicy_home_node": (450, 450, 450, 450),
    "move_pages": (279, 317, 239, 344), "migrate_pages": (256, 294, 238, 400),
    # obsolete
    "nfsservctl": (180, 169, 42, 169), "lookup_dcookie": (212, 253, 18, 249),
    "sysfs": (139, 135, None, 135), "_sysctl": (156, 149, None, 149),
    "uselib": (134, 86, None, 86), "ustat": (136, 62, None, 62),
}
# fmt: on
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in seccomp_data
_LOAD, _AND, _JUMP, _EQUALS, _HAS, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NOT_X32 = 0xBFFFFFFF  # x32 has x86_64's numbers with one bit more

Instruction = tuple[int, int, int, int]  # code, steps to skip if so, steps if not, operand


def deny_system_calls() -> bool:
    """True if the kernel accepted the filter. Needs `PR_SET_NO_NEW_PRIVS`; cannot be undone."""
    return kernel.filter_calls(b"".join(struct.pack("<HBBI", *step) for step in filter_program()))


def filter_program() -> list[Instruction]:
    steps = [step for column, known in enumerate(ARCHITECTURES) for step in _steps(column, *known)]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _steps(
    column: int,
    architecture: int,
    clone: int,
    unshare: int,
    new_socket: int,
    socketcall: int | None,
) -> list[Instruction]:
    """What decides every call of one architecture; a call of another goes on behind it.

    The kernel remembers for each number that a filter always allows it, so most calls cost nothing.
    """
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    allow = (_RETURN, 0, 0, _ALLOW)
    rest: list[Instruction] = [
        (_LOAD, 0, 0, _NUMBER),
        (_AND, 0, 0, _NOT_X32),
        (_EQUALS, 0, 1, CLONE3),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    arguments = [
        (clone, _HAS, (NEW_NAMESPACES,)),
        (unshare, _HAS, (NEW_NAMESPACES | NEW_TIME,)),
        (new_socket, _EQUALS, ADDRESS_FAMILIES),
        (socketcall, _EQUALS, (SOCKETCALL_SOCKET,)),
    ]
    for number, test, operands in arguments:
        if number is not None:
            tests = [step for operand in operands for step in ((test, 0, 1, operand), refuse)]
            rest += [(_EQUALS, 0, len(tests) + 2, number), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
            rest += [*tests, allow]
    for numbers in DENIED_CALLS.values():
        if numbers[column] is not None:
            rest += [(_EQUALS, 0, 1, int(numbers[column] or 0)), refuse]
    rest.append(allow)
    # A jump by more than 255 steps needs an instruction of its own.
    ours = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 1, 0, architecture), (_JUMP, 0, 0, len(rest))]
    return ours + rest

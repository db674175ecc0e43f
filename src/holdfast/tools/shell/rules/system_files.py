"""System files: written, and those that others run by themselves."""

import re

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.rule import PathRule
from holdfast.tools.shell.run import PathAction, PathEffect

_WRITE_ACTIONS = frozenset(
    (
        PathAction.WRITE,
        PathAction.REMOVE,
        PathAction.DELETE,
        PathAction.CHANGE_OWNER_OR_MODE,
        PathAction.MAKE_WRITABLE,
    )
)
_STARTUP_FILES = re.compile(
    r"/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile"
    r"|zlogin|kshrc|cshrc|tcshrc|login|xinitrc|xprofile|xsession|inputrc|pam_environment)$"
    r"|/\.config/(fish/|autostart/|systemd/)|/\.ssh(/|$)|/Library/Launch|/\.git/hooks/"
    r"|/cron(tab|\.\w+)?(/|$)|/\.gitconfig$|/\.config/git/|/ld\.so\.preload$|sitecustomize\.py$"
)
_LOGIN_FILES = re.compile(r"^/etc/(passwd|shadow|group|gshadow|sudoers(\.d/.*)?|fstab)$|^/boot/")
_HISTORY_FILES = re.compile(r"/\.(bash_|zsh_|python_|psql_|mysql_)?history$|^/var/log/")


def _is_startup_file(touch: PathEffect, ground: PathLocation) -> bool:
    path = touch.paths.resolve(touch.path)
    if ground == PathLocation.INSIDE and "/.git/hooks/" not in path:
        return False
    return _STARTUP_FILES.search(path) is not None


SYSTEM_FILE_RULES = (
    PathRule(
        name="start-up-file",
        level=CommandRisk.DANGEROUS,
        why="It would change what runs by itself or who may log in ({part}).",
        actions=_WRITE_ACTIONS,
        matches=_is_startup_file,
    ),
    PathRule(
        name="who-may-enter",
        level=CommandRisk.DANGEROUS,
        why="It would change who may enter this machine, or how it starts ({part}).",
        actions=_WRITE_ACTIONS,
        matches=lambda touch, ground: (
            _LOGIN_FILES.search(touch.paths.resolve(touch.path)) is not None
        ),
    ),
    PathRule(
        name="cover-tracks",
        level=CommandRisk.DANGEROUS,
        why="It would change or empty a record of what was done ({part}).",
        actions=_WRITE_ACTIONS,
        matches=lambda touch, ground: (
            _HISTORY_FILES.search(touch.paths.resolve(touch.path)) is not None
        ),
    ),
    PathRule(
        name="system-file",
        level=CommandRisk.DANGEROUS,
        why="It would write to a file or folder of the system ({part}).",
        actions=_WRITE_ACTIONS,
        matches=lambda touch, ground: (
            ground in (PathLocation.SYSTEM, PathLocation.SYSTEM_TREE, PathLocation.ROOT)
        ),
    ),
)

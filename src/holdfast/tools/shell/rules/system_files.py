"""System files: written, and those that others run by themselves."""

import re

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.rules.rule import PathRule
from holdfast.tools.shell.run import Deed, Touch

_WRITES = frozenset((Deed.WRITE, Deed.REMOVE, Deed.DELETE, Deed.CHANGE, Deed.OPEN_UP))
_START_UP = re.compile(
    r"/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile"
    r"|zlogin|kshrc|cshrc|tcshrc|login|xinitrc|xprofile|xsession|inputrc|pam_environment)$"
    r"|/\.config/(fish/|autostart/|systemd/)|/\.ssh(/|$)|/Library/Launch|/\.git/hooks/"
    r"|/cron(tab|\.\w+)?(/|$)|/\.gitconfig$|/\.config/git/|/ld\.so\.preload$|sitecustomize\.py$"
)
_PASSWORDS = re.compile(r"^/etc/(passwd|shadow|group|gshadow|sudoers(\.d/.*)?|fstab)$|^/boot/")
_TRACKS = re.compile(r"/\.(bash_|zsh_|python_|psql_|mysql_)?history$|^/var/log/")


def _is_start_up(touch: Touch, ground: Ground) -> bool:
    path = touch.place.resolve(touch.path)
    if ground == Ground.INSIDE and "/.git/hooks/" not in path:
        return False
    return _START_UP.search(path) is not None


RULES = (
    PathRule(
        name="start-up-file",
        level=Level.DANGEROUS,
        why="It would change what runs by itself or who may log in ({part}).",
        deeds=_WRITES,
        sees=_is_start_up,
    ),
    PathRule(
        name="who-may-enter",
        level=Level.DANGEROUS,
        why="It would change who may enter this machine, or how it starts ({part}).",
        deeds=_WRITES,
        sees=lambda touch, ground: _PASSWORDS.search(touch.place.resolve(touch.path)) is not None,
    ),
    PathRule(
        name="cover-tracks",
        level=Level.DANGEROUS,
        why="It would change or empty a record of what was done ({part}).",
        deeds=_WRITES,
        sees=lambda touch, ground: _TRACKS.search(touch.place.resolve(touch.path)) is not None,
    ),
    PathRule(
        name="system-file",
        level=Level.DANGEROUS,
        why="It would write to a file or folder of the system ({part}).",
        deeds=_WRITES,
        sees=lambda touch, ground: ground in (Ground.SYSTEM, Ground.SYSTEM_TREE, Ground.ROOT),
    ),
)

"""The unseen: code that cannot be known, is hidden, or multiplies."""

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.rules.rule import SightRule
from holdfast.tools.shell.run import Sight

RULES = (
    SightRule(
        name="fork-bomb",
        level=Level.HOPELESS,
        why="It would start itself over and over until the machine stands still.",
        sight=Sight.FORK_BOMB,
    ),
    SightRule(
        name="code-from-the-network",
        level=Level.DANGEROUS,
        why="It would run code straight from the network, unseen.",
        sight=Sight.NETWORK_CODE,
    ),
    SightRule(
        name="remote-shell",
        level=Level.DANGEROUS,
        why="It would connect a shell or its output to another machine.",
        sight=Sight.REMOTE_SHELL,
    ),
    SightRule(
        name="hidden-code",
        level=Level.DANGEROUS,
        why="It would run code that is encoded so that nobody sees what it does.",
        sight=Sight.HIDDEN_CODE,
    ),
    SightRule(
        name="hidden-program",
        level=Level.DANGEROUS,
        why="It hides the name of the program that it runs.",
        sight=Sight.HIDDEN_PROGRAM,
    ),
    SightRule(
        name="unknown-code",
        level=Level.DANGEROUS,
        why="What it would run only turns out when it runs.",
        sight=Sight.UNKNOWN_CODE,
    ),
    SightRule(
        name="foreign-library",
        level=Level.DANGEROUS,
        why="It would load code from outside the workspace into whatever it runs.",
        sight=Sight.FOREIGN_LIBRARY,
    ),
    SightRule(
        name="unreadable",
        level=Level.DANGEROUS,
        why="It cannot be read as a shell command to its end, and names programs that can do harm.",
        sight=Sight.UNREADABLE,
    ),
    SightRule(
        name="too-tangled",
        level=Level.DANGEROUS,
        why="It is too long or too tangled to be read to its end.",
        sight=Sight.TANGLED,
    ),
)

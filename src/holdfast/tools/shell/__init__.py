"""Shell command analysis: what a command would do, read from its grammar before it runs.

The judge itself is loaded with the first command, so that a gateway whose agents only talk does not
pay for it.
"""

from functools import cached_property

from holdfast.core.people.approval import (
    PLAIN_COMMAND,
    CommandJudge,
    CommandVerdict,
    JudgeContext,
)
from holdfast.core.turns.external import CommandNetwork, NetworkUse


class LazyShellJudge:
    """Grammar and rules take tens of milliseconds and 2 MB, which a gateway whose agents only
    talk never needs."""

    def __init__(self, *, workspaces: tuple[str, ...], gateway_home: str = "") -> None:
        self._workspaces = workspaces
        self._gateway_home = gateway_home

    def judge(self, command: str, context: JudgeContext = PLAIN_COMMAND) -> CommandVerdict:
        return self._judge.judge(command, context)

    @cached_property
    def _judge(self) -> CommandJudge:
        from holdfast.tools.shell.judge import ShellJudge  # noqa: PLC0415 - the point of this

        return ShellJudge(workspaces=self._workspaces, gateway_home=self._gateway_home)


class LazyNetworkAnalyser:
    """Loads the analysis of network use with the first command that may use the network."""

    def analyse(self, command: str) -> NetworkUse | None:
        return self._analyser.analyse(command)

    @cached_property
    def _analyser(self) -> CommandNetwork:
        from holdfast.tools.shell.network_use import NetworkAnalyser  # noqa: PLC0415 - as above

        return NetworkAnalyser()

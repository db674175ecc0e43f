"""A judge that learns its rules when the first command comes."""

from functools import cached_property

from holdfast.core.people.judgement import CommandJudge, CommandVerdict


class LazyShellJudge:
    """Grammar and rules take tens of milliseconds and 2 MB, which a gateway whose agents only
    talk never needs."""

    def __init__(self, *, workspaces: tuple[str, ...]) -> None:
        self._workspaces = workspaces

    def judge(self, command: str) -> CommandVerdict:
        return self._judge.judge(command)

    @cached_property
    def _judge(self) -> CommandJudge:
        from holdfast.tools.shell.judge import ShellJudge  # noqa: PLC0415 - the point of this

        return ShellJudge(workspaces=self._workspaces)

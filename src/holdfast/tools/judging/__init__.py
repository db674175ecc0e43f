"""Judging: what a shell command would do, read from its grammar before it runs."""

from holdfast.tools.judging.judge import ShellJudge

__all__ = ["ShellJudge"]

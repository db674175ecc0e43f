"""History: what git would throw away, here or at others'."""

from collections.abc import Callable

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.options import parse_options
from holdfast.tools.shell.rules.rule import ProgramRule, word_set
from holdfast.tools.shell.run import ProgramCall

_GIT_VALUED_OPTIONS = ("git-dir", "work-tree", "namespace", "exec-path")


def _git_subcommand(run: ProgramCall) -> tuple[str, tuple[str, ...]]:
    """git's sub-command and what follows it."""
    operands = parse_options(
        run.args, valued="Cc", valued_longs=_GIT_VALUED_OPTIONS, mixed=False
    ).operands
    return (operands[0], operands[1:]) if operands else ("", ())


def _on_subcommand(
    *verbs: str, sees: Callable[[str, tuple[str, ...]], bool]
) -> Callable[[ProgramCall], bool]:
    """What holds of these sub-commands. A run that does not name one is not read any further:
    most runs of git are of another."""
    wanted = frozenset(verbs)

    def seen(run: ProgramCall) -> bool:
        if wanted.isdisjoint(run.args):
            return False
        verb, rest = _git_subcommand(run)
        return verb in wanted and sees(verb, rest)

    return seen


def _force_pushes(verb: str, rest: tuple[str, ...]) -> bool:
    options = parse_options(rest, valued="o")
    if options.has("n", "dry-run"):
        return False
    if options.has("fd", "force", "force-with-lease", "delete", "mirror", "prune"):
        return True
    return any(word.startswith(("+", ":")) for word in options.operands[1:])


def _resets_hard(verb: str, rest: tuple[str, ...]) -> bool:
    return parse_options(rest).has("", "hard")


def _cleans_untracked(verb: str, rest: tuple[str, ...]) -> bool:
    options = parse_options(rest, valued="e")
    return options.has("f", "force") and not options.has("n", "dry-run")


def _discards_changes(verb: str, rest: tuple[str, ...]) -> bool:
    options = parse_options(rest)
    if verb == "switch":
        return options.has("f", "discard-changes", "force")
    if verb == "checkout" and options.has("f", "force"):
        return True
    whole = any(word in (".", ":/", "*", "./") for word in options.operands)
    staged_only = options.has("S", "staged") and not options.has("W", "worktree")
    return whole and not staged_only


def _rewrites_history(verb: str, rest: tuple[str, ...]) -> bool:
    match verb:
        case "reflog":
            return bool({"expire", "delete"} & set(rest))
        case "update-ref":
            return "-d" in rest or "--delete" in rest
        case "stash":
            return bool({"drop", "clear"} & set(rest))
        case "gc":
            return any(word.startswith("--prune=") for word in rest)
    return True


def _deletes_branch(verb: str, rest: tuple[str, ...]) -> bool:
    options = parse_options(rest)
    return "D" in options.shorts or (options.has("d", "delete") and options.has("f", "force"))


def _loosens_settings(verb: str, rest: tuple[str, ...]) -> bool:
    said = " ".join(rest).lower()
    keys = ("core.hookspath", "credential.helper", "core.sshcommand", "core.fsmonitor")
    off = "http.sslverify" in said and "false" in said
    return off or (any(key in said for key in keys) and len(rest) > 1)


_REWRITING = _on_subcommand(
    "filter-branch", "filter-repo", "reflog", "update-ref", "stash", "gc", sees=_rewrites_history
)

GIT_RULES = (
    ProgramRule(
        name="push-over-history",
        level=CommandRisk.DANGEROUS,
        why="It would overwrite or delete history that others may have.",
        programs=word_set("git"),
        matches=_on_subcommand("push", sees=_force_pushes),
    ),
    ProgramRule(
        name="reset-hard",
        level=CommandRisk.DANGEROUS,
        why="It would throw away all changes that are not committed.",
        programs=word_set("git"),
        matches=_on_subcommand("reset", sees=_resets_hard),
    ),
    ProgramRule(
        name="clean-untracked",
        level=CommandRisk.DANGEROUS,
        why="It would delete every file that git does not know.",
        programs=word_set("git"),
        matches=_on_subcommand("clean", sees=_cleans_untracked),
    ),
    ProgramRule(
        name="discard-changes",
        level=CommandRisk.DANGEROUS,
        why="It would throw away changes that are not committed.",
        programs=word_set("git"),
        matches=_on_subcommand("checkout", "switch", "restore", sees=_discards_changes),
    ),
    ProgramRule(
        name="rewrite-history",
        level=CommandRisk.DANGEROUS,
        why="It would rewrite or forget history, or work that was put aside.",
        programs=word_set("git git-filter-repo bfg"),
        matches=lambda run: run.program != "git" or _REWRITING(run),
    ),
    ProgramRule(
        name="delete-a-branch",
        level=CommandRisk.DANGEROUS,
        why="It would delete a branch even if its work is nowhere else.",
        programs=word_set("git"),
        matches=_on_subcommand("branch", sees=_deletes_branch),
    ),
    ProgramRule(
        name="loosen-git",
        level=CommandRisk.DANGEROUS,
        why="It would change whom git trusts, or what it runs by itself.",
        programs=word_set("git"),
        matches=_on_subcommand("config", sees=_loosens_settings),
    ),
)

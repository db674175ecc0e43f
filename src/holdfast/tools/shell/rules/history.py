"""History: what git would throw away, here or at others'."""

from collections.abc import Callable

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.options import read_options
from holdfast.tools.shell.rules.rule import RunRule, names
from holdfast.tools.shell.run import Run

_OWN_VALUES = ("git-dir", "work-tree", "namespace", "exec-path")


def _verb(run: Run) -> tuple[str, tuple[str, ...]]:
    """git's sub-command and what follows it."""
    operands = read_options(run.args, valued="Cc", valued_longs=_OWN_VALUES, mixed=False).operands
    return (operands[0], operands[1:]) if operands else ("", ())


def _on(*verbs: str, sees: Callable[[str, tuple[str, ...]], bool]) -> Callable[[Run], bool]:
    """What holds of these sub-commands. A run that does not name one is not read any further:
    most runs of git are of another."""
    wanted = frozenset(verbs)

    def seen(run: Run) -> bool:
        if wanted.isdisjoint(run.args):
            return False
        verb, rest = _verb(run)
        return verb in wanted and sees(verb, rest)

    return seen


def _pushes_over(verb: str, rest: tuple[str, ...]) -> bool:
    options = read_options(rest, valued="o")
    if options.has("n", "dry-run"):
        return False
    if options.has("fd", "force", "force-with-lease", "delete", "mirror", "prune"):
        return True
    return any(word.startswith(("+", ":")) for word in options.operands[1:])


def _resets(verb: str, rest: tuple[str, ...]) -> bool:
    return read_options(rest).has("", "hard")


def _cleans(verb: str, rest: tuple[str, ...]) -> bool:
    options = read_options(rest, valued="e")
    return options.has("f", "force") and not options.has("n", "dry-run")


def _discards(verb: str, rest: tuple[str, ...]) -> bool:
    options = read_options(rest)
    if verb == "switch":
        return options.has("f", "discard-changes", "force")
    if verb == "checkout" and options.has("f", "force"):
        return True
    whole = any(word in (".", ":/", "*", "./") for word in options.operands)
    staged_only = options.has("S", "staged") and not options.has("W", "worktree")
    return whole and not staged_only


def _rewrites(verb: str, rest: tuple[str, ...]) -> bool:
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
    options = read_options(rest)
    return "D" in options.shorts or (options.has("d", "delete") and options.has("f", "force"))


def _loosens(verb: str, rest: tuple[str, ...]) -> bool:
    said = " ".join(rest).lower()
    keys = ("core.hookspath", "credential.helper", "core.sshcommand", "core.fsmonitor")
    off = "http.sslverify" in said and "false" in said
    return off or (any(key in said for key in keys) and len(rest) > 1)


_REWRITING = _on(
    "filter-branch", "filter-repo", "reflog", "update-ref", "stash", "gc", sees=_rewrites
)

RULES = (
    RunRule(
        name="push-over-history",
        level=Level.DANGEROUS,
        why="It would overwrite or delete history that others may have.",
        programs=names("git"),
        sees=_on("push", sees=_pushes_over),
    ),
    RunRule(
        name="reset-hard",
        level=Level.DANGEROUS,
        why="It would throw away all changes that are not committed.",
        programs=names("git"),
        sees=_on("reset", sees=_resets),
    ),
    RunRule(
        name="clean-untracked",
        level=Level.DANGEROUS,
        why="It would delete every file that git does not know.",
        programs=names("git"),
        sees=_on("clean", sees=_cleans),
    ),
    RunRule(
        name="discard-changes",
        level=Level.DANGEROUS,
        why="It would throw away changes that are not committed.",
        programs=names("git"),
        sees=_on("checkout", "switch", "restore", sees=_discards),
    ),
    RunRule(
        name="rewrite-history",
        level=Level.DANGEROUS,
        why="It would rewrite or forget history, or work that was put aside.",
        programs=names("git git-filter-repo bfg"),
        sees=lambda run: run.program != "git" or _REWRITING(run),
    ),
    RunRule(
        name="delete-a-branch",
        level=Level.DANGEROUS,
        why="It would delete a branch even if its work is nowhere else.",
        programs=names("git"),
        sees=_on("branch", sees=_deletes_branch),
    ),
    RunRule(
        name="loosen-git",
        level=Level.DANGEROUS,
        why="It would change whom git trusts, or what it runs by itself.",
        programs=names("git"),
        sees=_on("config", sees=_loosens),
    ),
)

"""History: what git would throw away, here or at others'."""

from holdfast.core.judgement import Level
from holdfast.tools.judging.options import Options, read_options
from holdfast.tools.judging.rule import RunRule, names
from holdfast.tools.judging.run import Run

_OWN_VALUES = ("git-dir", "work-tree", "namespace", "exec-path")


def _verb(run: Run) -> tuple[str, tuple[str, ...]]:
    """git's sub-command and what follows it."""
    operands = read_options(run.args, valued="Cc", valued_longs=_OWN_VALUES, mixed=False).operands
    return (operands[0], operands[1:]) if operands else ("", ())


def _options(run: Run) -> tuple[str, Options]:
    verb, rest = _verb(run)
    return verb, read_options(rest, valued="mob" if verb == "push" else "")


def _pushes_over(run: Run) -> bool:
    verb, options = _options(run)
    if verb != "push" or options.has("n", "dry-run"):
        return False
    if options.has("fd", "force", "force-with-lease", "delete", "mirror", "prune"):
        return True
    return any(word.startswith(("+", ":")) for word in options.operands[1:])


def _resets(run: Run) -> bool:
    verb, options = _options(run)
    return verb == "reset" and options.has("", "hard")


def _cleans(run: Run) -> bool:
    verb, options = _options(run)
    return verb == "clean" and options.has("f", "force") and not options.has("n", "dry-run")


def _discards(run: Run) -> bool:
    verb, options = _options(run)
    if verb == "checkout" and options.has("f", "force"):
        return True
    if verb == "switch" and options.has("f", "discard-changes", "force"):
        return True
    whole = any(word in (".", ":/", "*", "./") for word in options.operands)
    staged_only = options.has("S", "staged") and not options.has("W", "worktree")
    return verb in ("checkout", "restore") and whole and not staged_only


def _rewrites(run: Run) -> bool:
    verb, rest = _verb(run)
    if verb in ("filter-branch", "filter-repo"):
        return True
    if verb == "reflog":
        return bool({"expire", "delete"} & set(rest))
    if verb == "update-ref":
        return "-d" in rest or "--delete" in rest
    if verb == "stash":
        return bool({"drop", "clear"} & set(rest))
    return verb == "gc" and any(word.startswith("--prune=") for word in rest)


def _deletes_branch(run: Run) -> bool:
    verb, options = _options(run)
    forced = "D" in options.shorts or (options.has("d", "delete") and options.has("f", "force"))
    return verb == "branch" and forced


def _loosens(run: Run) -> bool:
    verb, rest = _verb(run)
    said = " ".join(rest).lower()
    keys = ("core.hookspath", "credential.helper", "core.sshcommand", "core.fsmonitor")
    off = "http.sslverify" in said and "false" in said
    return verb == "config" and (off or (any(key in said for key in keys) and len(rest) > 1))


RULES = (
    RunRule(
        name="push-over-history",
        level=Level.DANGEROUS,
        why="It would overwrite or delete history that others may have.",
        programs=names("git"),
        sees=_pushes_over,
    ),
    RunRule(
        name="reset-hard",
        level=Level.DANGEROUS,
        why="It would throw away all changes that are not committed.",
        programs=names("git"),
        sees=_resets,
    ),
    RunRule(
        name="clean-untracked",
        level=Level.DANGEROUS,
        why="It would delete every file that git does not know.",
        programs=names("git"),
        sees=_cleans,
    ),
    RunRule(
        name="discard-changes",
        level=Level.DANGEROUS,
        why="It would throw away changes that are not committed.",
        programs=names("git"),
        sees=_discards,
    ),
    RunRule(
        name="rewrite-history",
        level=Level.DANGEROUS,
        why="It would rewrite or forget history, or work that was put aside.",
        programs=names("git git-filter-repo bfg"),
        sees=lambda run: run.program != "git" or _rewrites(run),
    ),
    RunRule(
        name="delete-a-branch",
        level=Level.DANGEROUS,
        why="It would delete a branch even if its work is nowhere else.",
        programs=names("git"),
        sees=_deletes_branch,
    ),
    RunRule(
        name="loosen-git",
        level=Level.DANGEROUS,
        why="It would change whom git trusts, or what it runs by itself.",
        programs=names("git"),
        sees=_loosens,
    ),
)

"""Rules about git history, databases, clouds, clusters and containers."""

import re
from collections.abc import Callable
from itertools import pairwise

from holdfast.core.people.approval import CommandRisk
from holdfast.core.text.translation import N_
from holdfast.tools.shell.invocation import ProgramCall, parse_options
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.rules.base import ProgramRule, is_dry_run, word_set

_GIT_VALUED_OPTIONS = ("git-dir", "work-tree", "namespace", "exec-path")


def _git_subcommand(run: ProgramCall) -> tuple[str, tuple[str, ...]]:
    """The sub-command of git, and its arguments."""
    operands = parse_options(
        run.args, valued="Cc", valued_longs=_GIT_VALUED_OPTIONS, mixed=False
    ).operands
    return (operands[0], operands[1:]) if operands else ("", ())


def _on_subcommand(
    *verbs: str, sees: Callable[[str, tuple[str, ...]], bool]
) -> Callable[[ProgramCall], bool]:
    """A rule for these sub-commands only. A call without any of them is not analysed further: most
    calls of git are of another."""
    verb_set = frozenset(verbs)

    def seen(run: ProgramCall) -> bool:
        if verb_set.isdisjoint(run.args):
            return False
        verb, rest = _git_subcommand(run)
        return verb in verb_set and sees(verb, rest)

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
    text = " ".join(rest).lower()
    keys = (
        "core.hookspath", "credential.helper", "core.sshcommand", "core.fsmonitor", "include.path",
        "core.gitproxy", "init.templatedir", "diff.external", "gpg.program", "core.askpass",
    )  # fmt: skip
    off = "http.sslverify" in text and "false" in text
    return off or (any(key in text for key in keys) and len(rest) > 1)


def _pushes_elsewhere(verb: str, rest: tuple[str, ...]) -> bool:
    """To a remote other than `origin`, which a repository gets from its clone."""
    options = parse_options(
        rest, valued="o", valued_longs=("receive-pack", "exec", "push-option", "repo")
    )
    if options.has("n", "dry-run"):
        return False
    repository = options.value("", "repo") or (
        options.operands[0] if options.operands else "origin"
    )
    return repository != "origin" and UNKNOWN not in repository


def _redirects_remote(verb: str, rest: tuple[str, ...]) -> bool:
    if verb == "remote":
        return rest[:1] == ("set-url",)
    return any(_REMOTE_SETTINGS.fullmatch(word) for word in rest[:-1])


_REMOTE_SETTINGS = re.compile(
    r"remote\..*\.(?:push)?(?:url|proxy)|url\..*\.(?:push)?insteadof|http\.proxy", re.IGNORECASE
)
_REWRITING = _on_subcommand(
    "filter-branch", "filter-repo", "reflog", "update-ref", "stash", "gc", sees=_rewrites_history
)

GIT_RULES = (
    ProgramRule(
        name="push-over-history",
        level=CommandRisk.DANGEROUS,
        why=N_("It would overwrite or delete history that others may have."),
        programs=word_set("git"),
        matches=_on_subcommand("push", sees=_force_pushes),
    ),
    ProgramRule(
        name="push-elsewhere",
        level=CommandRisk.DANGEROUS,
        why=N_("It would push to another repository than the one that this one was cloned from."),
        programs=word_set("git"),
        matches=_on_subcommand("push", sees=_pushes_elsewhere),
    ),
    ProgramRule(
        name="redirect-a-remote",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change which repository later pushes and fetches go to."),
        programs=word_set("git"),
        matches=_on_subcommand("remote", "config", sees=_redirects_remote),
    ),
    ProgramRule(
        name="reset-hard",
        level=CommandRisk.DANGEROUS,
        why=N_("It would discard all changes that are not committed."),
        programs=word_set("git"),
        matches=_on_subcommand("reset", sees=_resets_hard),
    ),
    ProgramRule(
        name="clean-untracked",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete every file that git does not track."),
        programs=word_set("git"),
        matches=_on_subcommand("clean", sees=_cleans_untracked),
    ),
    ProgramRule(
        name="discard-changes",
        level=CommandRisk.DANGEROUS,
        why=N_("It would discard changes that are not committed."),
        programs=word_set("git"),
        matches=_on_subcommand("checkout", "switch", "restore", sees=_discards_changes),
    ),
    ProgramRule(
        name="rewrite-history",
        level=CommandRisk.DANGEROUS,
        why=N_("It would rewrite or delete history, or delete stashed work."),
        programs=word_set("git git-filter-repo bfg"),
        matches=lambda run: run.program != "git" or _REWRITING(run),
    ),
    ProgramRule(
        name="delete-a-branch",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete a branch even if its commits are in no other branch."),
        programs=word_set("git"),
        matches=_on_subcommand("branch", sees=_deletes_branch),
    ),
    ProgramRule(
        name="loosen-git",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change which folders git trusts, or which programs it runs."),
        programs=word_set("git"),
        matches=_on_subcommand("config", sees=_loosens_settings),
    ),
)


_SQL_CLIENTS = word_set(
    "psql mysql mariadb sqlite3 sqlite sqlcmd cockroach clickhouse-client clickhouse duckdb usql"
    " mycli pgcli bq snowsql isql sqlplus cqlsh"
)
_DESTRUCTIVE_SQL = re.compile(
    r"\bdrop\s+(database|schema|table|tablespace|user|role|keyspace|owned|index|view)\b"
    r"|\bdelete\s+from\s+[\w\"`.]+\s+where\s+(true|1|1\s*=\s*1)\s*(;|$)"
    r"|\btruncate\s+(table\s+)?[\w\"`.]+|\bdelete\s+from\s+[\w\"`.]+\s*(;|$|\"|')"
    r"|\bupdate\s+[\w\"`.]+\s+set\s+(?:(?!\bwhere\b)[^;])*(;|$)|\balter\s+table\b[^;]*\bdrop\b",
    re.IGNORECASE | re.MULTILINE,
)
_EXPLAINED = re.compile(r"\bexplain\s+(?!\(|analy)[^;]*", re.IGNORECASE)
_EXECUTES = re.compile(r"\b(execute|exec|prepare|do|call|eval)\b", re.IGNORECASE)
# Nothing that could begin or end a comment or another kind of quote, nor a second statement.
_VALUE = re.compile(r"'[\w ,.:%()@]*'")
_DELETES_RECORDS = re.compile(
    r"\.(delete_all|destroy_all)\b|\.objects\.all\(\)\.delete\(\)|::truncate\(\)|\bdrop_all\(\)"
)
_RUNS_ON_SERVER = re.compile(
    r"\b(to|from)\s+program\s*'|\bxp_cmdshell\b|\bsys_exec\(", re.IGNORECASE
)
_DESTRUCTIVE_MONGO = re.compile(
    r"dropDatabase|\.drop\s*\(|deleteMany\s*\(\s*\{\s*\}|\.remove\s*\(\s*\{\s*\}"
)
_DESTRUCTIVE_REDIS = word_set("flushall flushdb shutdown debug")
_RESET_TASKS = re.compile(
    r"^(db:(drop|reset|purge|wipe|schema:load|migrate:reset)|migrate:(fresh|reset)|ecto\.(drop|reset)"
    r"|doctrine:(database|schema):drop|database:drop)$"
)


def _drops_tables(run: ProgramCall) -> bool:
    return any(_DESTRUCTIVE_SQL.search(_executed_sql(text)) for text in (*run.args, run.stdin))


def _executed_sql(text: str) -> str:
    """The statements that are executed: without EXPLAIN, and without plain values unless a value
    may be a statement itself."""
    text = _EXPLAINED.sub("", text)
    return text if _EXECUTES.search(text) else _VALUE.sub("''", text)


def _resets_database(run: ProgramCall) -> bool:
    words = set(run.args)
    if any(_RESET_TASKS.match(word) for word in run.args):
        return True
    if any(word.endswith("manage.py") for word in (run.program, *run.args)):
        return bool({"flush", "reset_db", "sqlflush"} & words)
    if "prisma" in (run.program, *run.args):
        return {"migrate", "reset"} <= words or "--force-reset" in words
    return run.program == "alembic" and {"downgrade", "base"} <= words


def _drops_database(run: ProgramCall) -> bool:
    if run.program == "pg_restore":
        return run.options("dfhpUtTnNjFLP", ("dbname",)).has("c", "clean")
    return run.program != "mysqladmin" or "drop" in run.args


def _flushes_store(run: ProgramCall) -> bool:
    words = {word.lower() for word in (*run.args, *run.stdin.split())}
    unseen = not {"del", "unlink"}.isdisjoint(words) and any(UNKNOWN in word for word in words)
    return unseen or not _DESTRUCTIVE_REDIS.isdisjoint(words)


DATABASE_RULES = (
    ProgramRule(
        name="drop-records",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete all rows of a table of a database."),
        programs=word_set(
            "rails rake bundle python python3 manage.py django-admin flask php artisan"
        ),
        matches=lambda run: any(_DELETES_RECORDS.search(text) for text in (*run.args, run.stdin)),
    ),
    ProgramRule(
        name="drop-data",
        level=CommandRisk.DANGEROUS,
        why=N_("It would drop or empty tables of a database."),
        programs=_SQL_CLIENTS,
        matches=_drops_tables,
    ),
    ProgramRule(
        name="run-on-a-database-server",
        level=CommandRisk.DANGEROUS,
        why=N_("It would run a program on the database server."),
        programs=word_set("psql pgcli mysql mariadb sqlcmd"),
        matches=lambda run: any(_RUNS_ON_SERVER.search(text) for text in (*run.args, run.stdin)),
    ),
    ProgramRule(
        name="drop-a-database",
        level=CommandRisk.DANGEROUS,
        why=N_("It would drop a database or a user of it."),
        programs=word_set("dropdb dropuser mysqladmin pg_restore"),
        matches=_drops_database,
    ),
    ProgramRule(
        name="drop-documents",
        level=CommandRisk.DANGEROUS,
        why=N_("It would drop or empty collections of a database."),
        programs=word_set("mongo mongosh"),
        matches=lambda run: (
            _DESTRUCTIVE_MONGO.search("\n".join((*run.args, run.stdin))) is not None
        ),
    ),
    ProgramRule(
        name="flush-a-store",
        level=CommandRisk.DANGEROUS,
        why=N_("It would empty a key-value store."),
        programs=word_set("redis-cli valkey-cli keydb-cli"),
        matches=_flushes_store,
    ),
    ProgramRule(
        name="reset-a-database",
        level=CommandRisk.DANGEROUS,
        why=N_("It would drop a database and create it again."),
        programs=word_set(
            "rails rake bin/rails python python3 manage.py django-admin prisma npx yarn pnpm bunx"
            " php artisan mix alembic bundle console sequelize"
        ),
        matches=_resets_database,
    ),
)


_CLOUD_VERB = re.compile(
    r"^(delete|terminate|destroy|remove|purge|deregister|disable|revoke|schedule-key-deletion"
    r"|reset|stop-instances|modify-db-instance)(-|$)"
)
_GRANT_VERBS = re.compile(
    r"^((attach|put)-(user|role|group|bucket|key)-policy|put-bucket-acl|put-object-acl"
    r"|(add|set)-iam-policy(-binding)?|authorize-security-group-\w+|create-(access-key|login-profile)"
    r"|delete-public-access-block|add-user-to-group|update-assume-role-policy)$"
)
_GRANT_PAIRS = frozenset(
    (("keys", "create"), ("assignment", "create"), ("acl", "ch"), ("iam", "ch"))
)
_DESTROY_VERBS = word_set(
    "destroy apps:destroy addons:destroy pg:reset remove delete rm undefine purge uninstall"
    " hosting:disable projects:delete databases:remove down"
)


def _words(run: ProgramCall) -> list[str]:
    return [word for word in run.args if not word.startswith("-")]


def _destroys_infrastructure(run: ProgramCall) -> bool:
    words = set(run.args)
    if "-help" in words:
        return False
    if "destroy" in words or "--auto-approve" in words or "-auto-approve" in words:
        return True
    if "-destroy" in words and "plan" not in words:
        return True
    said = _words(run)
    return said[:2] in (["state", "rm"], ["workspace", "delete"]) or said[:1] == ["force-unlock"]


def _deletes_from_cluster(run: ProgramCall) -> bool:
    words = _words(run)
    verbs = word_set("delete drain cordon evict taint")
    if is_dry_run(run):
        return False
    if verbs & set(words[:3]) or {"replace", "--force"} <= set(run.args):
        return True
    none = any(word in ("--replicas=0",) for word in run.args)
    return ("scale" in words and none) or {"rollout", "undo"} <= set(words)


def _prunes_containers(run: ProgramCall) -> bool:
    words, options = _words(run), run.options()
    if words[:1] == ["compose"] or run.program == "docker-compose":
        return "down" in words and options.has("v", "volumes")
    if "prune" in words[:2]:
        # What nothing refers to any more is built again when it is wanted.
        return words[0] not in ("image", "builder", "buildx") or options.has("a", "all")
    if words[:2] in (["volume", "rm"], ["volume", "remove"], ["swarm", "leave"], ["stack", "rm"]):
        return True
    every = any(UNKNOWN in word for word in run.args)
    return words[:1] in (["rm"], ["rmi"], ["kill"]) and every


def _deletes_from_cloud(run: ProgramCall) -> bool:
    words = _words(run)
    if is_dry_run(run):
        return False
    if run.program == "aws" and words[:2] == ["s3", "rm"]:
        return "--recursive" in run.args
    if run.program == "aws" and words[:2] == ["s3", "rb"]:
        return True
    if run.program == "aws" and words[:2] == ["s3", "sync"]:
        return "--delete" in run.args
    return any(_CLOUD_VERB.match(word) for word in words[:6])


def _grants_access(run: ProgramCall) -> bool:
    words = _words(run)
    if any(_GRANT_VERBS.match(word) for word in words[:5]):
        return True
    return any(pair in _GRANT_PAIRS for pair in pairwise(words[:6]))


def _empties_bucket(run: ProgramCall) -> bool:
    words = set(_words(run)) & word_set("rm rb del purge delete deletefile sync move rmdir")
    deep = run.options().has("rR", "recursive", "force", "delete-removed")
    if run.program == "rclone":
        return bool(words & word_set("purge delete sync rmdir move")) and not is_dry_run(run)
    return bool(words & word_set("rb")) or (bool(words) and deep)


def _destroys_stack(run: ProgramCall) -> bool:
    return bool(_DESTROY_VERBS & set(_words(run)[:3])) and not is_dry_run(run)


def _deletes_repository(run: ProgramCall) -> bool:
    words = tuple(_words(run)[:2])
    if words in (("repo", "delete"), ("repo", "archive"), ("secret", "delete"), ("repo", "edit")):
        return True
    verb = run.options("XfFH", ("method", "field", "raw-field", "header")).value("X", "method")
    return words[:1] == ("api",) and (verb or "").upper() == "DELETE"


INFRASTRUCTURE_RULES = (
    ProgramRule(
        name="destroy-infrastructure",
        level=CommandRisk.DANGEROUS,
        why=N_("It would destroy or change infrastructure without confirmation."),
        programs=word_set("terraform tofu terragrunt"),
        matches=_destroys_infrastructure,
    ),
    ProgramRule(
        name="destroy-a-stack",
        level=CommandRisk.DANGEROUS,
        why=N_("It would stop a deployment that others use."),
        programs=word_set(
            "pulumi cdk cdktf sls serverless vagrant virsh heroku fly flyctl vercel netlify railway"
            " firebase helm eksctl kops multipass lxc copilot eb now wrangler supabase minikube"
            " kind k3d"
        ),
        matches=_destroys_stack,
    ),
    ProgramRule(
        name="delete-from-a-cluster",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete or stop resources of a cluster."),
        programs=word_set("kubectl oc k"),
        matches=_deletes_from_cluster,
    ),
    ProgramRule(
        name="prune-containers",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete containers, images or volumes with their content."),
        programs=word_set("docker podman nerdctl docker-compose"),
        matches=_prunes_containers,
    ),
    ProgramRule(
        name="delete-from-a-cloud",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete or stop resources of a cloud account."),
        programs=word_set(
            "aws gcloud az doctl linode-cli hcloud oci ibmcloud aliyun bq scw vultr-cli"
        ),
        matches=_deletes_from_cloud,
    ),
    ProgramRule(
        name="open-an-account",
        level=CommandRisk.DANGEROUS,
        why=N_("It would grant rights or keys in a cloud account, or make it public."),
        programs=word_set("aws gcloud az gsutil"),
        matches=_grants_access,
    ),
    ProgramRule(
        name="empty-a-bucket",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete cloud storage."),
        programs=word_set("gsutil s3cmd mc rclone b2 azcopy s5cmd"),
        matches=_empties_bucket,
    ),
    ProgramRule(
        name="delete-a-repository",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete a repository, or a part of it, on its server."),
        programs=word_set("gh glab"),
        matches=_deletes_repository,
    ),
)

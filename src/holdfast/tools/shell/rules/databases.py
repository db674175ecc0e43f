"""Databases: dropped, emptied, or reset."""

import re

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.rules.rule import RunRule, names
from holdfast.tools.shell.run import Run

_CLIENTS = names(
    "psql mysql mariadb sqlite3 sqlite sqlcmd cockroach clickhouse-client clickhouse duckdb usql"
    " mycli pgcli bq snowsql isql sqlplus cqlsh"
)
_SQL = re.compile(
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
_RECORDS = re.compile(
    r"\.(delete_all|destroy_all)\b|\.objects\.all\(\)\.delete\(\)|::truncate\(\)|\bdrop_all\(\)"
)
_RUNS_THERE = re.compile(r"\b(to|from)\s+program\s*'|\bxp_cmdshell\b|\bsys_exec\(", re.IGNORECASE)
_MONGO = re.compile(r"dropDatabase|\.drop\s*\(|deleteMany\s*\(\s*\{\s*\}|\.remove\s*\(\s*\{\s*\}")
_REDIS = names("flushall flushdb shutdown debug")
_TASKS = re.compile(
    r"^(db:(drop|reset|purge|wipe|schema:load|migrate:reset)|migrate:(fresh|reset)|ecto\.(drop|reset)"
    r"|doctrine:(database|schema):drop|database:drop)$"
)


def _drops(run: Run) -> bool:
    return any(_SQL.search(_done(text)) for text in (*run.args, run.stdin))


def _done(text: str) -> str:
    """The statements without what they only explain, and without plain values, unless a value
    may be a statement itself."""
    text = _EXPLAINED.sub("", text)
    return text if _EXECUTES.search(text) else _VALUE.sub("''", text)


def _resets(run: Run) -> bool:
    words = set(run.args)
    if any(_TASKS.match(word) for word in run.args):
        return True
    if any(word.endswith("manage.py") for word in (run.program, *run.args)):
        return bool({"flush", "reset_db", "sqlflush"} & words)
    if "prisma" in (run.program, *run.args):
        return {"migrate", "reset"} <= words or "--force-reset" in words
    return run.program == "alembic" and {"downgrade", "base"} <= words


def _drops_whole(run: Run) -> bool:
    if run.program == "pg_restore":
        return run.options("dfhpUtTnNjFLP", ("dbname",)).has("c", "clean")
    return run.program != "mysqladmin" or "drop" in run.args


def _flushes(run: Run) -> bool:
    words = {word.lower() for word in (*run.args, *run.stdin.split())}
    unseen = not {"del", "unlink"}.isdisjoint(words) and any(UNKNOWN in word for word in words)
    return unseen or not _REDIS.isdisjoint(words)


RULES = (
    RunRule(
        name="drop-records",
        level=Level.DANGEROUS,
        why="It would delete all records of a kind from a database.",
        programs=names("rails rake bundle python python3 manage.py django-admin flask php artisan"),
        sees=lambda run: any(_RECORDS.search(text) for text in (*run.args, run.stdin)),
    ),
    RunRule(
        name="drop-data",
        level=Level.DANGEROUS,
        why="It would drop or empty tables of a database.",
        programs=_CLIENTS,
        sees=_drops,
    ),
    RunRule(
        name="run-on-a-database-server",
        level=Level.DANGEROUS,
        why="It would run a program on the machine of the database.",
        programs=names("psql pgcli mysql mariadb sqlcmd"),
        sees=lambda run: any(_RUNS_THERE.search(text) for text in (*run.args, run.stdin)),
    ),
    RunRule(
        name="drop-a-database",
        level=Level.DANGEROUS,
        why="It would drop a database or a user of it.",
        programs=names("dropdb dropuser mysqladmin pg_restore"),
        sees=_drops_whole,
    ),
    RunRule(
        name="drop-documents",
        level=Level.DANGEROUS,
        why="It would drop or empty collections of a database.",
        programs=names("mongo mongosh"),
        sees=lambda run: _MONGO.search("\n".join((*run.args, run.stdin))) is not None,
    ),
    RunRule(
        name="flush-a-store",
        level=Level.DANGEROUS,
        why="It would empty a key-value store.",
        programs=names("redis-cli valkey-cli keydb-cli"),
        sees=_flushes,
    ),
    RunRule(
        name="reset-a-database",
        level=Level.DANGEROUS,
        why="It would drop a database and begin it anew.",
        programs=names(
            "rails rake bin/rails python python3 manage.py django-admin prisma npx yarn pnpm bunx"
            " php artisan mix alembic bundle console sequelize"
        ),
        sees=_resets,
    ),
)

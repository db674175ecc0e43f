"""Databases: dropped, emptied, or reset."""

import re

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.rules.rule import ProgramRule, word_set
from holdfast.tools.shell.run import ProgramCall

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
    """The statements without what they only explain, and without plain values, unless a value
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
        why="It would delete all records of a kind from a database.",
        programs=word_set(
            "rails rake bundle python python3 manage.py django-admin flask php artisan"
        ),
        matches=lambda run: any(_DELETES_RECORDS.search(text) for text in (*run.args, run.stdin)),
    ),
    ProgramRule(
        name="drop-data",
        level=CommandRisk.DANGEROUS,
        why="It would drop or empty tables of a database.",
        programs=_SQL_CLIENTS,
        matches=_drops_tables,
    ),
    ProgramRule(
        name="run-on-a-database-server",
        level=CommandRisk.DANGEROUS,
        why="It would run a program on the machine of the database.",
        programs=word_set("psql pgcli mysql mariadb sqlcmd"),
        matches=lambda run: any(_RUNS_ON_SERVER.search(text) for text in (*run.args, run.stdin)),
    ),
    ProgramRule(
        name="drop-a-database",
        level=CommandRisk.DANGEROUS,
        why="It would drop a database or a user of it.",
        programs=word_set("dropdb dropuser mysqladmin pg_restore"),
        matches=_drops_database,
    ),
    ProgramRule(
        name="drop-documents",
        level=CommandRisk.DANGEROUS,
        why="It would drop or empty collections of a database.",
        programs=word_set("mongo mongosh"),
        matches=lambda run: (
            _DESTRUCTIVE_MONGO.search("\n".join((*run.args, run.stdin))) is not None
        ),
    ),
    ProgramRule(
        name="flush-a-store",
        level=CommandRisk.DANGEROUS,
        why="It would empty a key-value store.",
        programs=word_set("redis-cli valkey-cli keydb-cli"),
        matches=_flushes_store,
    ),
    ProgramRule(
        name="reset-a-database",
        level=CommandRisk.DANGEROUS,
        why="It would drop a database and begin it anew.",
        programs=word_set(
            "rails rake bin/rails python python3 manage.py django-admin prisma npx yarn pnpm bunx"
            " php artisan mix alembic bundle console sequelize"
        ),
        matches=_resets_database,
    ),
)

"""Databases: dropped, emptied, or reset."""

import re

from holdfast.core.judgement import Level
from holdfast.tools.judging.rule import RunRule, names
from holdfast.tools.judging.run import Run

_CLIENTS = names(
    "psql mysql mariadb sqlite3 sqlite sqlcmd cockroach clickhouse-client clickhouse duckdb usql"
    " mycli pgcli bq snowsql isql sqlplus cqlsh"
)
_SQL = re.compile(
    r"\bdrop\s+(database|schema|table|tablespace|user|role|keyspace|owned|index|view)\b"
    r"|\btruncate\s+(table\s+)?[\w\"`.]+|\bdelete\s+from\s+[\w\"`.]+\s*(;|$|\"|')"
    r"|\bupdate\s+[\w\"`.]+\s+set\s+(?:(?!\bwhere\b)[^;])*(;|$)|\balter\s+table\b[^;]*\bdrop\b",
    re.IGNORECASE | re.MULTILINE,
)
_MONGO = re.compile(r"dropDatabase|\.drop\s*\(|deleteMany\s*\(\s*\{\s*\}|\.remove\s*\(\s*\{\s*\}")
_REDIS = names("flushall flushdb shutdown debug")
_TASKS = re.compile(
    r"^(db:(drop|reset|purge|wipe|schema:load|migrate:reset)|migrate:(fresh|reset)|ecto\.(drop|reset)"
    r"|doctrine:(database|schema):drop|database:drop)$"
)


def _drops(run: Run) -> bool:
    return _SQL.search("\n".join((*run.args, run.stdin))) is not None


def _resets(run: Run) -> bool:
    words = set(run.args)
    if any(_TASKS.match(word) for word in run.args):
        return True
    if any(word.endswith("manage.py") for word in (run.program, *run.args)):
        return bool({"flush", "reset_db", "sqlflush"} & words)
    if "prisma" in (run.program, *run.args):
        return {"migrate", "reset"} <= words or "--force-reset" in words
    return run.program == "alembic" and {"downgrade", "base"} <= words


RULES = (
    RunRule(
        name="drop-data",
        level=Level.DANGEROUS,
        why="It would drop or empty tables of a database.",
        programs=_CLIENTS,
        sees=_drops,
    ),
    RunRule(
        name="drop-a-database",
        level=Level.DANGEROUS,
        why="It would drop a database or a user of it.",
        programs=names("dropdb dropuser mysqladmin"),
        sees=lambda run: run.program != "mysqladmin" or "drop" in run.args,
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
        sees=lambda run: bool(_REDIS & {word.lower() for word in (*run.args, *run.stdin.split())}),
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

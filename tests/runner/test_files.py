"""Files through the runner: read, written, edited once, searched."""

import asyncio

import pytest

from holdfast.core.ids import CallId
from holdfast.core.ports.sandbox import Sandbox, SandboxRefused


async def test_a_written_file_is_read_back_by_lines(sandbox: Sandbox) -> None:
    done = await sandbox.write_file(CallId("c"), "deep/down/a.txt", "one\ntwo\nthree\n")
    assert (done.path, done.bytes, done.existed) == ("/workspace/deep/down/a.txt", 14, False)
    part = await sandbox.read_file("deep/down/a.txt", offset=2, limit=1)
    assert (part.text, part.first, part.shown, part.total) == ("two", 2, 1, 3)


async def test_a_replaced_file_keeps_its_mode_and_a_link_stays_a_link(sandbox: Sandbox) -> None:
    await sandbox.run(
        CallId("c1"), "echo '#!/bin/sh' >run; chmod 750 run; ln -s run link", limit=60
    )
    await sandbox.write_file(CallId("c2"), "link", "new")
    result = await sandbox.run(
        CallId("c3"), "cat run; stat -c %a run; test -L link && ls", limit=60
    )
    assert result.output == "new750\nlink\nrun\n"


async def test_paths_follow_the_terminal_and_home(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c1"), "mkdir sub && cd sub && echo in >x && echo out >~/y", limit=60)
    assert (await sandbox.read_file("x")).text == "in"
    assert (await sandbox.read_file("~/y")).text == (await sandbox.read_file("../y")).text == "out"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing", "no such file: /workspace/missing; beside it are: binary, pipe"),
        ("binary", "is binary"),
        ("pipe", "is no plain file"),
        (".", "is a folder of 2: binary, pipe"),
        ("/etc/shadow", "no such file"),
        ("a\0b", "holds a NUL byte"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_a_reason(
    sandbox: Sandbox, path: str, says: str
) -> None:
    await sandbox.run(CallId("c"), r"printf 'a\0b' >binary; mkfifo pipe", limit=60)
    with pytest.raises(SandboxRefused, match=says):
        await sandbox.read_file(path)


async def test_endless_lines_and_files_are_truncated(sandbox: Sandbox) -> None:
    await sandbox.run(
        CallId("c"), "head -c 10000 /dev/zero | tr '\\0' x >wide; seq 100000 >long", limit=60
    )
    wide = await sandbox.read_file("wide")
    assert wide.text.endswith("[… 8000 characters cut]")
    long = await sandbox.read_file("long", limit=100_000)
    assert long.shown < long.total == 100_000


async def test_an_edit_replaces_the_one_match_and_is_applied_once(sandbox: Sandbox) -> None:
    await sandbox.write_file(CallId("w"), "a", "x = 1\ny = 2\n")
    edited = await sandbox.edit_file(CallId("c"), "a", old="y = 2", new="y = 2\ny = 2")
    assert (edited.replaced, edited.lines) == (1, (2,))
    again = await sandbox.edit_file(CallId("c"), "a", old="y = 2", new="y = 2\ny = 2")
    assert again == edited == await sandbox.recorded_edit(CallId("c"))
    assert (await sandbox.read_file("a")).text == "x = 1\ny = 2\ny = 2"
    assert await sandbox.recorded_edit(CallId("never")) is None


async def test_an_edit_without_exactly_one_match_is_refused_and_changes_nothing(
    sandbox: Sandbox,
) -> None:
    await sandbox.write_file(
        CallId("w"), "a", "def first(self):\n    pass\n\ndef second(self):\n    pass\n"
    )
    with pytest.raises(
        SandboxRefused, match=r"(?s)does not occur.*nearest is at line 4:.*def second"
    ):
        await sandbox.edit_file(CallId("c1"), "a", old="def  second(self):", new="x")
    with pytest.raises(SandboxRefused, match=r"occurs 2 times \(lines 2, 5\)"):
        await sandbox.edit_file(CallId("c2"), "a", old="pass", new="x")
    with pytest.raises(SandboxRefused, match="occurs 2 times"):
        await sandbox.recorded_edit(CallId("c2"))
    assert (
        await sandbox.edit_file(CallId("c3"), "a", old="pass", new="x", everywhere=True)
    ).replaced == 2


async def test_an_edit_keeps_windows_line_ends(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c1"), r"printf 'a\r\nb\r\nc\r\n' >dos", limit=60)
    await sandbox.edit_file(CallId("c2"), "dos", old="a\nb", new="x\ny\nz")
    result = await sandbox.run(CallId("c3"), "od -c dos | tr -s ' '", limit=60)
    assert result.output.startswith("0000000 x \\r \\n y \\r \\n z \\r \\n c \\r \\n")


async def test_search_finds_lines_and_names(sandbox: Sandbox) -> None:
    await sandbox.write_file(CallId("w1"), "src/a.py", "import os\n\ndef here(): ...\n")
    await sandbox.write_file(CallId("w2"), "src/b.txt", "def there\n")
    await sandbox.write_file(CallId("w3"), ".git/c.py", "def hidden\n")
    assert (await sandbox.search_files(r"def \w+")).lines == (
        "src/a.py:3: def here(): ...",
        "src/b.txt:1: def there",
    )
    assert (await sandbox.search_files("def", glob="*.py")).lines == (
        "src/a.py:3: def here(): ...",
    )
    assert (await sandbox.search_files("", glob="**/*.txt")).lines == ("src/b.txt",)
    assert (await sandbox.search_files("", path="src")).lines == ("a.py", "b.txt")
    with pytest.raises(SandboxRefused, match="no regular expression"):
        await sandbox.search_files("(")


async def test_search_is_capped(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c"), "seq 1000 >many", limit=60)
    found = await sandbox.search_files("1")
    assert len(found.lines) == 100 and found.more


async def test_a_slow_search_does_not_delay_a_command(sandbox: Sandbox) -> None:
    await sandbox.write_file(CallId("w"), "bomb", "a" * 30 + "!")
    slow = asyncio.create_task(sandbox.search_files("(a|a)*$"))
    result = await asyncio.wait_for(sandbox.run(CallId("c"), "echo well", limit=60), 20)
    assert result.output == "well\n" and not slow.done()
    slow.cancel()

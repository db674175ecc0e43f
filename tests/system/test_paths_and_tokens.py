"""Ids, the token and the paths of a home."""

import gc
import os
import socket
import threading
from pathlib import Path

import pytest
from tests.support.settable_clock import SettableClock

from holdfast.core.errors import HoldfastError
from holdfast.core.secrets import Secret
from holdfast.system.clock import IdGenerator, SystemClock
from holdfast.system.paths import Paths, private_dir
from holdfast.system.runtime import tuned_gc
from holdfast.system.tokens import api_token


def test_ids_sort_by_time_even_when_the_clock_stands_or_steps_back() -> None:
    clock = SettableClock(1_700_000_000.0)
    ids = IdGenerator(clock=clock)
    made = [ids("t") for _ in range(100)]
    clock.at -= 3600
    made += [ids("t") for _ in range(100)]
    clock.at += 7200
    made += [ids("t") for _ in range(100)]
    assert made == sorted(made)
    assert len(set(made)) == 300


def test_an_id_is_its_prefix_and_27_hexadecimal_digits() -> None:
    made = IdGenerator(clock=SystemClock())("session")
    prefix, _, rest = made.partition("_")
    assert prefix == "session"
    assert len(rest) == 27
    assert rest.isalnum() and rest == rest.lower()


def test_two_processes_at_the_same_instant_make_different_ids() -> None:
    clock = SettableClock(1.0)
    assert IdGenerator(clock=clock)("t") != IdGenerator(clock=clock)("t")


def test_the_token_is_made_once_and_private(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    token = api_token(paths)
    assert len(token.reveal()) > 32
    assert api_token(paths) == token
    assert paths.api_token.stat().st_mode & 0o777 == 0o600
    assert paths.secrets.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in paths.secrets.iterdir()] == ["api_token"]


def test_a_token_file_open_to_others_is_closed(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    token = api_token(paths)
    paths.api_token.chmod(0o644)
    assert api_token(paths) == token
    assert paths.api_token.stat().st_mode & 0o777 == 0o600


def test_concurrent_creators_of_the_token_get_the_same_one(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    found: list[Secret] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.append(api_token(paths))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_configured_token_is_the_token(tmp_path: Path) -> None:
    assert api_token(Paths(tmp_path), configured=Secret("mine")) == Secret("mine")
    assert not Paths(tmp_path).secrets.exists()


def test_an_empty_token_file_says_what_to_do(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    api_token(paths)
    paths.api_token.write_text("")
    with pytest.raises(HoldfastError, match="Remove it, and a new one is created"):
        api_token(paths)


def test_a_home_too_deep_for_a_socket_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    deep = Paths(tmp_path / ("d" * 60) / ("e" * 60))
    assert deep.run == Paths(deep.home).run
    assert deep.run != Paths(tmp_path / "other" / ("e" * 120)).run
    private_dir(deep.run)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(deep.control_socket))
        assert deep.run.stat().st_mode & 0o777 == 0o700
    finally:
        deep.control_socket.unlink()
        deep.run.rmdir()


def test_the_longest_home_that_fits_keeps_its_sockets(tmp_path: Path) -> None:
    room = 107 - len("/run/control.sock")
    fits = Path("/" + "a" * (room - 1))
    assert Paths(fits).run == fits / "run"
    assert len(str(Paths(fits).control_socket)) == 107
    assert Paths(Path(str(fits) + "a")).run.parent == Path("/tmp")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_socket_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    with pytest.raises(HoldfastError, match="not a directory that belongs"):
        private_dir(theirs)


def test_a_socket_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(HoldfastError, match="not a directory that belongs"):
        private_dir(tmp_path / "link")


def test_objects_of_the_start_are_exempt_from_garbage_collection() -> None:
    """Collection rests during the start, is rare afterwards, and is as before at the end."""
    before = (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled())
    with tuned_gc() as started:
        assert not gc.isenabled()
        started()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold()[0] > before[0][0]
    assert (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()) == before

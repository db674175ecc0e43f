"""The home directory (which one, and whether it can be used), and the process environment."""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from holdfast.config.errors import ConfigError, config_error


def resolve_home(option: str | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """`--home`, else `$HOLDFAST_HOME`, else `~/.holdfast`; made absolute, not created. It need not
    be there, but what is there must not be a file: nothing that is asked about it would be true."""
    environ = os.environ if environ is None else environ
    chosen = option or environ.get("HOLDFAST_HOME") or "~/.holdfast"
    try:
        home = Path(chosen).expanduser().absolute()
    except RuntimeError:
        raise config_error(
            f"home directory {chosen}",
            "`~` has no meaning for this user",
            fix="name the directory with --home or HOLDFAST_HOME",
        ) from None
    if _is_file(home):
        raise _home_error(home, "it is a file, not a directory")
    if os.fsencode(home).decode("utf-8", "replace") != str(home):
        raise _home_error(home, "its name is not UTF-8")
    return home


def _is_file(home: Path) -> bool:
    """Whether it is one, or lies in one."""
    try:
        return not stat.S_ISDIR(home.stat().st_mode)
    except NotADirectoryError:
        return True
    except OSError:
        return False  # it is not there, or may not be looked at: whoever needs it says so


def shared_state_dir(environ: Mapping[str, str]) -> Path:
    """What is common to every gateway of this user, whichever home it has; not created."""
    state = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME') or '~'}/.local/state"
    return Path(state).expanduser().absolute() / "holdfast"


def prepare_home(home: Path) -> None:
    """Create the home, for its owner alone, and make sure that it can be read and written."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise _home_error(home, "it is a file, not a directory") from None
    except OSError as error:
        raise _home_error(home, f"it cannot be created: {error.strerror}") from error
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise _home_error(home, "this user may not read and write it")


def home_warnings(home: Path) -> list[str]:
    """What is unwise about the home, in sentences."""
    try:
        mode = home.stat().st_mode & 0o777
    except OSError:
        return []
    if mode & 0o077:
        return [f"{home} is open to other users (mode {mode:04o}): chmod 700 {home}"]
    return []


def _home_error(home: Path, why: str) -> ConfigError:
    return config_error(
        f"home directory {home}",
        why,
        fix="choose another with --home or HOLDFAST_HOME, or mend its owner and mode",
    )


def process_environment() -> Mapping[str, str]:
    """A copy of the environment, for code about supervisors that needs more than a `Config`."""
    return MappingProxyType(dict(os.environ))


def pop_variables(names: Iterable[str]) -> dict[str, str]:
    """These variables, which are taken out: they were meant for this process, and neither it nor
    a program that it starts is to find them a second time."""
    found = {name: os.environ.pop(name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}

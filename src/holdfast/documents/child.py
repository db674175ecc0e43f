"""The program that reads a document, run once: what a stranger sends is taken apart elsewhere."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import msgspec

import holdfast
from holdfast.documents.found import DocumentText
from holdfast.documents.kinds import DocumentKind

# Without site and environment: it starts in a few milliseconds, and whatever lies in somebody's
# PYTHONPATH is none of its business.
_WORKER_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from holdfast.documents.worker.main import main; main()"
)
_SOURCE_ROOT = str(Path(holdfast.__file__).parent.parent)
_FAILED = "it could not be read within the limits that hold for documents"


async def read_in_worker(data: bytes, *, kind: DocumentKind, limit: int) -> DocumentText:
    """Never fails: whatever a document does to its reader is said of the document. Cancelled, the
    program is ended."""
    asked = json.dumps({"kind": kind, "limit": limit}).encode()
    try:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _WORKER_CODE, _SOURCE_ROOT),
            env={},
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
        )
    except OSError as error:
        return DocumentText(problem=f"the program that reads documents did not start ({error})")
    try:
        out, _ = await program.communicate(asked + b"\n" + data)
    finally:
        if program.returncode is None:
            program.kill()
            await asyncio.shield(program.wait())
    try:
        return msgspec.json.decode(out, type=DocumentText)
    except msgspec.MsgspecError:  # it was killed at one of its limits
        return DocumentText(problem=_FAILED)

"""A packed document: the files in a zip archive, none of which may unpack to more than is sane."""

import io
import struct
import zipfile
import zlib

from holdfast.documents.worker.text_buffer import UnreadableDocument

_MAX_FILE_BYTES = 64 * 2**20  # bytes of one file in it
_MAX_TOTAL_BYTES = 128 * 2**20
_MAX_RATIO = 250  # times: text packs to a twentieth, and a bomb to a thousandth
_RATIO_FREE_BYTES = 2**20  # bytes that are too few to be a bomb, however they are packed
_MAX_FILES = 20_000
_ENCRYPTED_FLAG = 0x1
# What the library says of an archive that is none, or of which a part is missing or mixed up.
_DAMAGED_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
)


class ZipDocument:
    """Owns the open archive, and how much of it has been unpacked. What its directory says of sizes
    is believed only where it is bad news."""

    def __init__(self, data: bytes) -> None:
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except _DAMAGED_ERRORS as error:
            raise UnreadableDocument(f"it is damaged ({error})") from None
        self._left = _MAX_TOTAL_BYTES
        if len(self._archive.filelist) > _MAX_FILES:
            raise UnreadableDocument(f"it has more than {_MAX_FILES} files in it")

    @property
    def names(self) -> list[str]:
        return self._archive.namelist()

    def read(self, name: str) -> bytes:
        """The whole file; b"" where there is none of that name."""
        try:
            info = self._archive.getinfo(name)
        except KeyError:
            return b""
        if info.flag_bits & _ENCRYPTED_FLAG:
            raise UnreadableDocument("it is encrypted")
        most = min(_MAX_FILE_BYTES, self._left)
        try:
            with self._archive.open(info) as file:
                data = file.read(most + 1)
        except _DAMAGED_ERRORS as error:
            raise UnreadableDocument(f"it is damaged ({error})") from None
        if len(data) > most or len(data) > max(_RATIO_FREE_BYTES, _MAX_RATIO * info.compress_size):
            raise UnreadableDocument("it unpacks to far more than a document has")
        self._left -= len(data)
        return data

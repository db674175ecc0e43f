"""A packed document: the files in a zip archive, none of which may unpack to more than is sane."""

import io
import struct
import zipfile
import zlib

from holdfast.documents.worker.text_buffer import Unreadable

_LARGEST = 64 * 2**20  # bytes of one file in it
_LARGEST_TOGETHER = 128 * 2**20
_RATIO = 250  # times: text packs to a twentieth, and a bomb to a thousandth
_SMALL = 2**20  # bytes that are too few to be a bomb, however they are packed
_MOST_FILES = 20_000
_ENCRYPTED = 0x1
# What the library says of an archive that is none, or of which a part is missing or mixed up.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
)


class Packed:
    """Owns the open archive, and how much of it has been unpacked. What its directory says of sizes
    is believed only where it is bad news."""

    def __init__(self, data: bytes) -> None:
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            raise Unreadable(f"it is damaged ({error})") from None
        self._left = _LARGEST_TOGETHER
        if len(self._archive.filelist) > _MOST_FILES:
            raise Unreadable(f"it has more than {_MOST_FILES} files in it")

    @property
    def names(self) -> list[str]:
        return self._archive.namelist()

    def read(self, name: str) -> bytes:
        """The whole file; b"" where there is none of that name."""
        try:
            info = self._archive.getinfo(name)
        except KeyError:
            return b""
        if info.flag_bits & _ENCRYPTED:
            raise Unreadable("it is encrypted")
        most = min(_LARGEST, self._left)
        try:
            with self._archive.open(info) as file:
                data = file.read(most + 1)
        except _BROKEN as error:
            raise Unreadable(f"it is damaged ({error})") from None
        if len(data) > most or len(data) > max(_SMALL, _RATIO * info.compress_size):
            raise Unreadable("it unpacks to far more than a document has")
        self._left -= len(data)
        return data

"""Files that their server cannot read: https://spec.matrix.org/latest/client-server-api/#sending-encrypted-attachments."""

import nio  # type: ignore[import-untyped]  # it has annotations, and does not say so
from nio.crypto import (  # type: ignore[import-untyped]
    decrypt_attachment,
    encrypt_attachment,
)

from holdfast.core.messages.attachment import AttachmentUnavailable
from holdfast.platforms.matrix.wire import EncryptedFile, Json


def decrypt_file(file: EncryptedFile, data: bytes) -> bytes:
    try:
        opened: bytes = decrypt_attachment(data, file.key.k, file.hashes.sha256, file.iv)
    except (nio.EncryptionError, ValueError) as error:
        raise AttachmentUnavailable(f"it cannot be decrypted: {error}") from error
    return opened


def encrypt_file(data: bytes) -> tuple[bytes, Json]:
    """What is to be uploaded, and how its readers open it, but for its address."""
    sealed: tuple[bytes, Json] = encrypt_attachment(data)
    return sealed

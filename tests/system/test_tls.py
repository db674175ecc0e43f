"""The certificates that the system trusts are read late, and then decide as they always did."""

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

# Prints what the context of aiohttp knows before and after a connection to the given server.
CLIENT = """
import asyncio, json, ssl, sys
from holdfast.system.runtime import import_aiohttp

import_aiohttp()
import aiohttp
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as context

settings = ("verify_mode", "check_hostname", "options", "verify_flags", "minimum_version")
ours = [int(getattr(context, name)) for name in settings]
default = [int(getattr(ssl.create_default_context(), name)) for name in settings]
before = context.cert_store_stats()["x509"]

async def connect():
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(sys.argv[1]) as response:
                return await response.text()
        except aiohttp.ClientConnectorCertificateError:
            return "not trusted"

answer = asyncio.run(connect())
after = context.cert_store_stats()["x509"]
found = {"same": ours == default, "before": before, "after": after, "answer": answer}
print(json.dumps(found))
"""
SERVER = """
import asyncio, ssl, sys

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello")
    await writer.drain()
    writer.close()

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost that is its own authority, and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command, *name, *files], check=True, capture_output=True)
    return cert, key


def run_client(port: str, **variables: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"https://localhost:{port}/"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_trust_is_read_for_the_first_connection_and_decides_about_it(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key = certificate
    command = [sys.executable, "-c", SERVER, str(cert), str(key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            stranger = run_client(port)
            trusted = run_client(port, SSL_CERT_FILE=str(cert), SSL_CERT_DIR=str(tmp_path / "none"))
        finally:
            server.terminate()
    known = ssl.create_default_context().cert_store_stats()["x509"]
    assert stranger == {"same": True, "before": 0, "after": known, "answer": "not trusted"}
    assert trusted == {"same": True, "before": 0, "after": 1, "answer": "hello"}

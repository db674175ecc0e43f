"""Web sites on loopback for tests of the sandbox's network, with names that only a policy knows."""

import asyncio
import hashlib
import io
import json
import ssl
import subprocess
import tarfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from holdfast.core.net import IpAddress
from holdfast.system.egress import EgressPolicy, HostContact

NAME = "site.example"
WHEEL = "demo-1.0-py3-none-any.whl"


class LocalSites:
    """An HTTP and an HTTPS server with the same pages: repositories of Python, npm, Debian and git,
    and streams that do not end by themselves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "cert.pem"
        self.ports: dict[str, int] = {}
        self.contacts: list[HostContact] = []
        self.streaming = 0  # endless responses that are being sent

    def url(self, path: str, *, scheme: str = "http") -> str:
        return f"{scheme}://{NAME}:{self.ports[scheme]}/{path}"

    def policy(self) -> EgressPolicy:
        """A policy that knows these sites as a public server, and nothing else of this machine."""
        return EgressPolicy(resolve=self._resolve, is_allowed=self._is_allowed, record=self._record)

    async def _resolve(self, host: str, port: int) -> list[str]:
        if host == NAME and port in self.ports.values():
            return ["127.0.0.1"]
        if host.endswith(".private.example"):
            return ["192.168.0.10"]
        loop = asyncio.get_running_loop()
        return [str(info[4][0]) for info in await loop.getaddrinfo(host, port)]

    def _is_allowed(self, address: IpAddress) -> bool:
        return str(address) == "127.0.0.1"

    async def _record(self, contact: HostContact) -> None:
        self.contacts.append(contact)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["LocalSites"]:
        _write_certificate(self.folder)
        app = web.Application()
        app.router.add_get("/hello", self._hello)
        app.router.add_get("/endless", self._endless)
        app.router.add_get("/npm/demo", self._npm_package)
        app.router.add_get("/simple/demo/", self._python_package)
        app.router.add_static("/files", self.folder)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.folder / "key.pem")
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.ports = dict(
            zip(("http", "https"), (each[1] for each in runner.addresses), strict=True)
        )
        self._write_repositories()
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _hello(self, request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.streaming += 1
        try:
            while True:
                await response.write(b"x" * 65536)
        except OSError:
            return response
        finally:
            self.streaming -= 1

    async def _python_package(self, request: web.Request) -> web.Response:
        return web.Response(text=f'<a href="/files/{WHEEL}">{WHEEL}</a>', content_type="text/html")

    async def _npm_package(self, request: web.Request) -> web.Response:
        data = (self.folder / "demo.tgz").read_bytes()
        dist = {
            "tarball": f"{request.scheme}://{request.host}/files/demo.tgz",
            "shasum": hashlib.sha1(data).hexdigest(),
        }
        version = {"name": "demo", "version": "1.0.0", "dist": dist}
        tags = {"latest": "1.0.0"}
        return web.json_response(
            {"name": "demo", "dist-tags": tags, "versions": {"1.0.0": version}}
        )

    def _write_repositories(self) -> None:
        with zipfile.ZipFile(self.folder / WHEEL, "w") as wheel:
            info = "demo-1.0.dist-info"
            wheel.writestr("demo.py", "")
            wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
        with tarfile.open(self.folder / "demo.tgz", "w:gz") as archive:
            body = json.dumps({"name": "demo", "version": "1.0.0"}).encode()
            member = tarfile.TarInfo("package/package.json")
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
        debian = self.folder / "debian"
        debian.mkdir()
        (debian / "Packages").write_text(
            "Package: demo\nVersion: 1.0\nArchitecture: all\nFilename: demo.deb\nSize: 0\n\n"
        )
        _write_git_repository(self.folder / "repo.git")


def _write_certificate(folder: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    name = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *name, *files], check=True, capture_output=True)


def _write_git_repository(path: Path) -> None:
    source = path.with_suffix(".source")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for command in (
        ["init", "-q", "-b", "main", str(source)],
        ["-C", str(source), *who, "commit", "-q", "--allow-empty", "-m", "First"],
        ["clone", "-q", "--bare", str(source), str(path)],
        ["-C", str(path), "update-server-info"],  # a repository that is plain files
    ):
        subprocess.run(["git", *command], check=True, capture_output=True)

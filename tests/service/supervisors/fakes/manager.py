"""A small fake systemd: it starts, restarts and kills units by their rules, and reads sd_notify.

Run as `manager.py RUNTIME UNITS SPEED`: the folder of its socket, that of the unit files, and how
many times faster than the real one it waits between restarts. Each call is a line in
`RUNTIME/calls`. Instead of control groups it uses process trees: it reaps all processes that its
units leave behind, and a scope is a process with its descendants.
"""

import asyncio
import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from tests.service.supervisors.fakes.service import FakeService

from holdfast.service.supervisors import systemd_unit

SUBREAPER = 36
VERSION = "systemd 252 (252.0-fake)\n"


class SystemdManager:
    """Owns the units, and the scopes that were requested."""

    def __init__(self, runtime: Path, folders: list[Path], *, speed: float) -> None:
        self.runtime, self.folders, self.speed = runtime, folders, speed
        self.scopes: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.services: dict[str, FakeService] = {}
        self.enabled: set[str] = set()

    async def listen(self) -> asyncio.Server:
        folder = self.runtime / "systemd"
        folder.mkdir(exist_ok=True)
        return await asyncio.start_unix_server(self.answer, folder / "private")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline())
        with (self.runtime / "calls").open("a") as calls:
            calls.write(json.dumps([request["program"], *request["arguments"]]) + "\n")
        response = {"code": 0, "out": "", "err": ""} | await self.execute(request)
        writer.write(json.dumps(response).encode())
        await writer.drain()
        writer.close()

    async def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        program, words = request["program"], request["arguments"]
        refused = [word for word in (program, *words) if (self.runtime / f"refuse-{word}").exists()]
        if refused:
            return {"code": 1, "err": f"{refused[0]}: Connection timed out\n"}
        if program == "systemd-run":
            return self.scope(words, int(request["pid"]))
        if "--version" in words:
            return {"out": VERSION}
        verb, *names = [word for word in words if not word.startswith("--")]
        options = {word for word in words if word.startswith("--")}
        return await self.systemctl(verb, names, options)

    def scope(self, words: list[str], pid: int) -> dict[str, Any]:
        separator = words.index("--")
        (name,) = (word.split("=")[1] for word in words[:separator] if word.startswith("--unit="))
        if name in self.scopes:
            return {"code": 1, "err": f"Unit {name}.scope was already loaded.\n"}
        self.scopes[name] = pid
        return {"exec": words[separator + 1 :]}

    async def systemctl(self, verb: str, names: list[str], options: set[str]) -> dict[str, Any]:
        if verb == "daemon-reload":
            self.load()
            return {}
        if verb == "show" and not names:
            return {"out": "Version=252\n"}
        (name,) = names
        if name not in self.texts:
            self.load()
        if name not in self.texts:
            return {"code": 5, "err": f"Unit {name} could not be found.\n"}
        return await self.apply(verb, self.service(name), options)

    async def apply(self, verb: str, service: FakeService, options: set[str]) -> dict[str, Any]:
        if verb == "show":
            return {"out": self.show(service)}
        if verb in ("enable", "disable"):
            (self.enabled.add if verb == "enable" else self.enabled.discard)(service.name)
            verb = {"enable": "start", "disable": "stop"}[verb] if "--now" in options else ""
        jobs = {"start": service.start, "stop": service.stop, "restart": service.restart}
        if not verb:
            return {}
        job = asyncio.ensure_future(jobs[verb]())
        if "--no-block" in options:
            self.service(service.name).jobs.add(job)
            return {}
        if await job:
            return {}
        return {"code": 1, "err": f"Job for {service.name} failed. See journalctl.\n"}

    def show(self, service: FakeService) -> str:
        facts = {
            "ActiveState": service.active,
            "SubState": service.sub,
            "MainPID": service.pid,
            "NRestarts": service.restarts,
            "UnitFileState": "enabled" if service.name in self.enabled else "disabled",
            "StatusText": service.status,
        }
        return "".join(f"{name}={value}\n" for name, value in facts.items())

    def load(self) -> None:
        files = [file for folder in self.folders for file in folder.glob("*.service")]
        self.texts = {file.name: systemd_unit.read_unit_text(file) for file in files}

    def service(self, name: str) -> FakeService:
        if name not in self.services:
            self.services[name] = FakeService(
                name,
                text=lambda: self.texts[name],
                runtime=self.runtime,
                excluded=lambda: set(self.scopes.values()),
                speed=self.speed,
            )
        return self.services[name]


async def main() -> None:
    runtime, folder, speed = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)
    server = await SystemdManager(runtime, [folder], speed=speed).listen()
    async with server:
        print("listening", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

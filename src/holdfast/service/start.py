"""Starting: the parts of a gateway are entered one after the other, until it takes messages."""

import logging
import os
from collections.abc import Callable

import msgspec

from holdfast.core.config.settings import SandboxMode
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.lifecycle.process_history import KEPT, Lives
from holdfast.gateway.lifespan import Running
from holdfast.models.choice import Chosen
from holdfast.models.pool import ModelPool
from holdfast.runner.runners import Runners
from holdfast.server.api.room import Room
from holdfast.server.local.departing import Doorway
from holdfast.server.startup_banner import greeting
from holdfast.service.footing import Begun, Footing
from holdfast.service.stalling import Stall
from holdfast.service.supervisors.notify import Notifier
from holdfast.service.supervisors.supervisor import BOOT, UNIT
from holdfast.service.upkeep import Upkeep
from holdfast.service.window import Window, bench_facts
from holdfast.service.wiring import Wiring
from holdfast.store.sqlite.store import SqliteStore

log = logging.getLogger(__name__)


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start. It may be cancelled anywhere: what it had entered by then is in `begun`."""

    wiring: Wiring
    window: Window
    footing: Footing
    begun: Begun
    lives: Lives
    doorway: Doorway
    notifier: Notifier
    stall: Stall
    watch: Callable[[Running], None]  # from here on it can break

    async def run(self) -> None:
        """Returns when the gateway takes messages, and whoever started it was greeted."""
        store = await self._open_store()
        pool = await self._open_models()
        model = await self.wiring.model()
        runners = self.wiring.runners(store)
        await self._come_to("trying the sandbox")
        if self.wiring.config.settings.runner.sandbox is SandboxMode.REQUIRED:
            await runners.probe()
        room = await self._open_doors(store, pool, model=model, runners=runners)
        running = self.begun.running = Running(room.gateway)
        self.watch(running)
        await running.start()
        await self._be_ready(room, store, resumed=running.resumed)
        await self._greet(runners, model)

    async def _come_to(self, phase: str) -> None:
        self.wiring.progress(phase)
        await self.stall.inside(phase)

    async def _open_store(self) -> SqliteStore:
        await self._come_to("opening the store")
        store = self.begun.store = await self.wiring.store().__aenter__()
        self.window.facts.read(store)
        await self._come_to("looking back")
        await self.lives.look_back(store, ran=self.footing.ran)
        return store

    async def _open_models(self) -> ModelPool:
        await self._come_to("choosing a model")
        pool = self.begun.models = await ModelPool().__aenter__()
        return pool

    async def _open_doors(
        self, store: SqliteStore, pool: ModelPool, *, model: Chosen, runners: Runners
    ) -> Room:
        """Both listeners. Until the gateway has started, whoever asks is told to wait."""
        wiring, window = self.wiring, self.window
        api = wiring.api(store)
        gateway, reloader = wiring.gateway(store, pool, model=model, runners=runners, api=api)
        self.begun.reloader = reloader
        gateway.house.in_force.tell(*self.footing.followers)
        desk = window.config_desk(gateway, store, reloader)
        room = window.room(gateway, store, runners, config_desk=desk)
        window.facts.add(gateway.snapshot, lambda: bench_facts(store, runners))
        window.facts.add(lambda: {"configuration": reloader.facts})
        window.facts.weigh(gateway.owned)
        await self._come_to("opening the listeners")
        listener = window.listener(room, api, inherited=self.footing.ground.sockets)
        self.begun.listener = await listener.__aenter__()
        window.facts.add(lambda: {"address": listener.address})
        self.footing.ground.lock.announce(listener.address)
        control = window.control_socket(
            gateway,
            store,
            link=self._link,
            doorway=self.doorway,
            shelf_changed=self._look_at_backups,
            config_desk=desk,
        )
        self.begun.control = await control.__aenter__()
        return room

    async def _be_ready(self, room: Room, store: SqliteStore, *, resumed: int) -> None:
        assert self.begun.listener is not None, "it was opened before the gateway was started"
        await self._come_to("telling who waits")
        await room.gateway.telling.came_back(resumed=resumed)
        await store.prune_stops(keep=KEPT)
        await self.begun.listener.accept()
        self.footing.intent.running()
        self.begun.ready = True
        self.wiring.progress("running")
        self.notifier.tell("READY=1", f"MAINPID={os.getpid()}", patience=1.0)
        log.info("Ready at %s.", self.begun.listener.address, extra={"action": "ready"})
        backups = self.wiring.backups(room.gateway)
        self.window.show_course(room, backups)
        self.begun.upkeep = Upkeep(store, backups=backups, minutes=room.minutes)
        self.begun.upkeep.begin()
        self._follow_file(self.begun.upkeep, room.gateway)

    def _follow_file(self, upkeep: Upkeep, gateway: Gateway) -> None:
        from holdfast.service.file_following import FileFollowing

        reloader = self.begun.reloader
        assert reloader is not None, "it was made with the gateway"
        following = FileFollowing(reloader, wanted=lambda: gateway.house.settings.gateway.watch)
        upkeep.add(reloader.keep_beginning(), name="keep the configuration")
        upkeep.add(following.run(), name="follow the configuration")

    async def _look_at_backups(self) -> None:
        """Before there is upkeep nobody needs to: it begins with a look."""
        if self.begun.upkeep is not None:
            await self.begun.upkeep.look_at_backups()

    async def _greet(self, runners: Runners, model: Chosen) -> None:
        """Tell the person who started it; by now it is known whether commands are confined."""
        await runners.probe()
        settings = self.wiring.config.settings
        off = settings.runner.sandbox is SandboxMode.OFF
        # What a supervisor keeps is read by others, and no place for a link that logs one in.
        kept = bool(self.wiring.config.environ.keys() & {UNIT, BOOT})
        print(
            greeting(
                home=self.wiring.config.home,
                address=self._address,
                wanted_port=settings.gateway.port,
                link="" if kept else self._link(),
                model=model.choice,
                unsandboxed="runner.sandbox is off" if off else runners.why_unsandboxed,
            ),
            flush=True,
        )

    @property
    def _address(self) -> str:
        return self.begun.listener.address if self.begun.listener is not None else ""

    def _link(self, viewer: str = "") -> str:
        """One that opens on this machine, also where the gateway listens on every address; for
        the owner, or as who has that viewer's token."""
        here = self._address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        login = self.window.login
        return login.link(here, viewer=login.viewers.named(viewer) if viewer else None)

"""The live screen of `holdfast top`: refreshes the status, and handles keys and signals.

Imports prompt_toolkit and rich: import this module inside functions only.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from os import terminal_size

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from holdfast.cli.top.frame import (
    QUIT_KEYS,
    REFRESH_KEYS,
    VIEW_KEYS,
    FrameRenderer,
    TopKey,
    TopView,
    apply_key,
    read_sample,
)
from holdfast.system.paths import Paths


class LiveScreen:
    """Owns the view and the last sample. The terminal itself is prompt_toolkit's: the alternate
    screen, drawing what has changed, the size and Ctrl-Z."""

    def __init__(self, paths: Paths, *, every: float) -> None:
        self._paths = paths
        self._every = every
        self._view = TopView()
        self._sample = read_sample(paths, now=time.time())
        self._refresh_now = asyncio.Event()
        control = FormattedTextControl(self._render, show_cursor=False, focusable=True)
        self._app: Application[None] = Application(
            layout=Layout(Window(control)), key_bindings=self._key_bindings(), full_screen=True
        )

    async def run(self) -> None:
        """Until a key, a signal or the end of the terminal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._quit)
        # The terminal may be gone: its input ends, and it takes no output.
        with suppress(EOFError, OSError):
            await self._app.run_async(pre_run=self._start_refreshing)

    def _start_refreshing(self) -> None:
        self._app.create_background_task(self._refresh_forever())

    async def _refresh_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._refresh_now.wait(), self._every)
            if self._refresh_now.is_set() or not self._view.paused:
                self._refresh_now.clear()
                # In a thread: keys are handled while the gateway takes its time.
                self._sample = await asyncio.to_thread(read_sample, self._paths, now=time.time())
                self._app.invalidate()

    def _render(self) -> ANSI:
        size = self._app.output.get_size()
        renderer = FrameRenderer(terminal_size((size.columns, size.rows)))
        return ANSI(renderer.ansi(self._sample, self._view))

    def _quit(self, event: KeyPressEvent | None = None) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def _key_bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        for name in QUIT_KEYS:
            bindings.add(name)(self._quit)
        for name in REFRESH_KEYS:
            bindings.add(name)(lambda event: self._refresh_now.set())
        bindings.add("c-z")(lambda event: event.app.suspend_to_background())
        for key in VIEW_KEYS:
            for name in key.keys:
                # Eager: escape is not the beginning of another key here.
                bindings.add(name, eager=Condition(lambda: True))(self._handler(key))
        return bindings

    def _handler(self, key: TopKey) -> Callable[[KeyPressEvent], None]:
        def handle(event: KeyPressEvent) -> None:
            self._view = apply_key(self._view, key, self._sample.turns)

        return handle

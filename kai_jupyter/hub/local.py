"""Servers as processes of the hub's machine, each on its share of a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets import default

from kai_jupyter.device_env import NO_DEVICES, share_variables
from kai_jupyter.errors import KaiRequestError
from kai_jupyter.hub.options import GRACE_S
from kai_jupyter.hub.place import GONE, now_ms
from kai_jupyter.hub.spawning import KaiSpawning
from kai_jupyter.hub.stages import IMAGE, NODE, STARTING
from kai_jupyter.kernel_lease import process_of

LOOK_S = 10
MARGIN_MS = 10_000
"""A server that loses its GPU is asked to end so long before its time to save is over."""


class KaiOnThisMachine(KaiSpawning):
    """Mixed in front of a spawner of local processes: the process of the server holds the share."""

    cmd: Any
    _kai_leaving_at: int | None = None
    _kai_is_ending = False

    @default("poll_interval")
    def _poll_interval_default(self) -> int:
        return LOOK_S

    def get_env(self) -> dict[str, str]:
        """Return the server's variables, with the devices it holds and no others."""
        env = super().get_env()
        view = self.kai_place.view
        held = {} if view is None or not self.kai_chosen.wants_gpu else share_variables(view)
        return env | NO_DEVICES | held

    async def start(self) -> Any:
        """Start the server's process and make it the holder of the share."""
        self._kai_leaving_at = None
        course, view = self.kai_course, self.kai_place.view
        node = view.pods[0].node if view is not None and view.pods else None
        course.reach(NODE, now_ms())
        course.note(NODE, node or "this machine")
        course.reach(IMAGE, now_ms())
        course.note(IMAGE, "none is needed here")
        course.reach(STARTING, now_ms())
        self.kai_tell(self.kai_standing.headline, self.kai_standing.detail, acts=())
        with self._kai_command():
            address = await super().start()
        process = process_of(self.kai_pid())
        if process is not None:
            try:
                await self.kai_place.hold_in(process)
            except KaiRequestError as error:  # it ended at once: JupyterHub tells that
                self.log.warning("kai: %s: %s", self._log_name, error)
        return address

    @contextlib.contextmanager
    def _kai_command(self) -> Iterator[None]:
        """Start the command of the chosen environment; the trait is as before for the next start."""
        usual: list[str] = list(self.cmd)
        profile = self.kai_offer.profile(self.kai_chosen.profile)
        if profile is not None and profile.cmd:
            self.cmd = list(profile.cmd)
        try:
            yield
        finally:
            self.cmd = usual

    def kai_pid(self) -> int | None:
        """Return the server's process."""
        return int(self.pid) or None

    async def poll(self) -> Any:
        """Return whether the server runs; end one that has lost its GPU to others and had its time to save."""
        status = await super().poll()
        if status is not None or self._kai_is_ending or not await self._kai_is_to_leave():
            return status
        self.log.warning("kai: %s has lost its GPU and is stopped", self._log_name)
        self._kai_is_ending = True  # the stop polls until it is over
        try:
            await self.stop(now=False)
        finally:
            self._kai_is_ending = False
        return 0

    async def _kai_is_to_leave(self) -> bool:
        view = await self.kai_place.look()
        if view is None or view.state not in GONE or view.ended_by == "owner":
            return False
        self._kai_leaving_at = self._kai_leaving_at or now_ms()
        return now_ms() - self._kai_leaving_at >= GRACE_S * 1000 - MARGIN_MS


class KaiLocalSpawner(KaiOnThisMachine, LocalProcessSpawner):
    """Each person's server runs as their own Unix account."""


class KaiSimpleSpawner(KaiOnThisMachine, SimpleLocalProcessSpawner):
    """To try it out: all servers run as the hub's account. Nobody is protected from anybody."""

"""Servers as pods of a cluster: KubeSpawner, whose pods ask our scheduler for a share of a GPU.

Rules: 1. What is chosen changes the pod in `get_pod_manifest` and no trait, so nothing leaks into the next start.
2. The time in the queue is not start time: `kai_start_timeout` begins with the grant.
3. What Kubernetes says of a pod becomes a stage and our own sentence; its events are shown to nobody.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kubespawner import KubeSpawner
from traitlets import Dict, Integer, Unicode, default

from kai_jupyter.hub import options
from kai_jupyter.hub.options import OTHER, USUAL, YIELDING, Chosen, Share
from kai_jupyter.hub.place import UNDECIDED, now_ms
from kai_jupyter.hub.pods import PodStanding, standing_of
from kai_jupyter.hub.spawning import CPU_ACT, KaiSpawning, title_of_start
from kai_jupyter.hub.stages import GRANTED, IMAGE, NODE, QUEUED, STARTING, Course

LOOK_S = 1.0
LONGEST_QUEUE_S = 30 * 86_400
ALLOWED_TROUBLE_S = 30
"""An image that can not be fetched, or a program that ends, may heal itself so long."""
QUEUE_LABEL = "kai.scheduler/queue"
FRACTION, MEMORY, GPUS = "gpu-fraction", "gpu-memory", "nvidia.com/gpu"


class KaiSpawner(KaiSpawning, KubeSpawner):
    """KubeSpawner on shares of GPUs."""

    kai_scheduler_name = Unicode("kai-scheduler", help="Who schedules pods with a GPU.").tag(
        config=True
    )
    kai_priority_classes: Dict[str, str] = Dict(
        {USUAL: "build", YIELDING: "build-preemptible"},
        help="The priority class of a server that keeps its GPU, and of one that may lose it.",
    ).tag(config=True)
    kai_start_timeout = Integer(
        900, help="Seconds from the grant until the server must run; the queue does not count."
    ).tag(config=True)

    @default("start_timeout")
    def _start_timeout_default(self) -> int:
        return LONGEST_QUEUE_S

    # -- the pod ----------------------------------------------------------------------------------------------------
    async def get_pod_manifest(self) -> Any:
        """Return the pod, with what was chosen."""
        pod = await super().get_pod_manifest()
        chosen, offer = self.kai_chosen, self.kai_offer
        profile, share = offer.profile(chosen.profile), offer.share(chosen.share)
        container = pod.spec.containers[0]
        if profile is not None and profile.image:
            container.image = profile.image
        if profile is not None and profile.cmd:
            container.args = [*profile.cmd, *self.get_args()]
        _book(container, share)
        if chosen.wants_gpu:
            self._ask_for_gpu(pod, container, chosen)
        return pod

    def _ask_for_gpu(self, pod: Any, container: Any, chosen: Chosen) -> None:
        pod.spec.scheduler_name = self.kai_scheduler_name
        pod.spec.priority_class_name = self.kai_priority_classes.get(chosen.priority) or None
        if chosen.queue:
            pod.metadata.labels = {**(pod.metadata.labels or {}), QUEUE_LABEL: chosen.queue}
        asked: dict[str, str] = {}
        if chosen.share == OTHER:
            asked = {MEMORY: str(options.memory_mib(chosen.gpu_memory))}
        elif float(chosen.share) < 1:
            asked = {FRACTION: chosen.share}
        else:
            _add(container, GPUS, chosen.share)
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), **asked}

    # -- the start --------------------------------------------------------------------------------------------------
    async def kai_wait(self) -> None:
        """Begin to tell how far the start is; in a cluster the pod itself is the request, and waits."""
        self.kai_course = Course(title_of_start(self.kai_chosen), now_ms())

    async def start(self) -> Any:
        """Make the pod and wait for it: in the queue however long, from the grant on for `kai_start_timeout`."""
        while True:
            other: asyncio.Future[Chosen] = asyncio.get_running_loop().create_future()
            self._kai_other = other
            work = asyncio.ensure_future(super().start())
            watch = asyncio.ensure_future(self._kai_followed())
            try:
                await asyncio.wait({work, watch, other}, return_when=asyncio.FIRST_COMPLETED)
                if other.done() and not work.done():
                    await self._kai_switch(work, other.result())
                    continue
                if watch.done() and not work.done():
                    watch.result()
                return await work
            finally:
                work.cancel()
                watch.cancel()
                self._kai_other = None

    async def _kai_switch(self, work: asyncio.Future[Any], chosen: Chosen) -> None:
        """Go on with another choice: the pod that waited goes, and its place with it."""
        work.cancel()
        await asyncio.wait({work})
        await self.stop(True)  # noqa: FBT003 - KubeSpawner's signature
        self.kai_place.name = self.kai_place.view = None
        self.kai_adopt(chosen)

    async def _kai_followed(self) -> None:
        """Tell how far the pod is. Raises the refusal of one that does not come up in time."""
        granted_at: int | None = None
        trouble_at: int | None = None
        while True:
            pods = self.pod_reflector.pods if self.pod_reflector is not None else {}
            standing = standing_of(pods.get(f"{self.namespace}/{self.pod_name}"))
            await self._kai_told_of(standing)
            now = now_ms()
            if standing.node:
                granted_at = granted_at or now
            trouble_at = (trouble_at or now) if standing.trouble else None
            self._kai_refuse_late(standing, granted_at, trouble_at, now)
            await asyncio.sleep(LOOK_S)

    def _kai_refuse_late(
        self, standing: PodStanding, granted_at: int | None, trouble_at: int | None, now: int
    ) -> None:
        if trouble_at is not None and now - trouble_at > ALLOWED_TROUBLE_S * 1000:
            hint = "Choose another environment, or tell whoever runs this hub."
            raise self.kai_refusal(f"{standing.trouble} {hint}", reason="kai_image")
        if granted_at is not None and now - granted_at > self.kai_start_timeout * 1000:
            minutes = self.kai_start_timeout // 60
            told = f"The server did not run {minutes} min after its grant. Try again."
            raise self.kai_refusal(told, reason="timeout", status_code=504)

    async def _kai_told_of(self, standing: PodStanding) -> None:
        course, now = self.kai_course, now_ms()
        if standing.stage == QUEUED:
            course.reach(QUEUED, now)
            await self._kai_told_of_queue(standing)
            return
        course.reach(GRANTED, now)
        course.reach(NODE, now)
        course.note(NODE, standing.node)
        course.note(IMAGE, self._kai_image_note())
        if standing.stage == NODE:
            self.kai_tell(f"A place on {standing.node} is yours.", acts=(), keeps_place=False)
            return
        course.reach(standing.stage, now)
        said = "Your server comes up." if standing.stage == STARTING else "The image is fetched."
        self.kai_tell(standing.trouble or said, f"On {standing.node}.", acts=(), keeps_place=False)

    async def _kai_told_of_queue(self, standing: PodStanding) -> None:
        """Say position and reason as the scheduler does; without it, that it waits."""
        self.kai_place.name = standing.group
        view = await self.kai_place.look()
        if view is not None and view.state in UNDECIDED:
            self.kai_seen(view)
            return
        acts = (CPU_ACT,) if self.kai_offer.has_cpu else ()
        chosen = options.title_of(self.kai_chosen)
        self.kai_tell(
            "In the queue. No time known yet.",
            title=f"Your server waits for {chosen}",
            acts=acts,
            keeps_place=True,
        )

    def _kai_image_note(self) -> str:
        profile = self.kai_offer.profile(self.kai_chosen.profile)
        return f"{profile.image_gb:g} GB" if profile is not None and profile.image_gb else ""

    async def kai_give_back(self, reason: str) -> None:  # noqa: ARG002 - of the other spawners
        """Nothing: the place and the GPU go with the pod, which KubeSpawner deletes."""
        self.kai_place.name = self.kai_place.view = None


def _book(container: Any, share: Share | None) -> None:
    """Ask for the processors and main memory that go with a share."""
    if share is not None and share.cpu is not None:
        _add(container, "cpu", f"{share.cpu:g}")
    if share is not None and share.memory is not None:
        _add(container, "memory", share.memory.removesuffix("B"))


def _add(container: Any, name: str, amount: str) -> None:
    resources = container.resources
    resources.requests = {**(resources.requests or {}), name: amount}
    resources.limits = {**(resources.limits or {}), name: amount}

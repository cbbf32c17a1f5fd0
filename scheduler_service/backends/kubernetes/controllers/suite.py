"""All controllers as one thing: what they need from who follows the cluster, and the tasks that the leader runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.controllers.grouping import Choices, Ground, Grouping
from scheduler_service.backends.kubernetes.controllers.grouping_config import (
    RawConfigMap,
    choose,
    decode_config_map,
)
from scheduler_service.backends.kubernetes.controllers.memberships import Memberships
from scheduler_service.backends.kubernetes.controllers.metrics import Metrics, Turn
from scheduler_service.backends.kubernetes.controllers.metrics_state import State
from scheduler_service.backends.kubernetes.controllers.news import Happenings
from scheduler_service.backends.kubernetes.controllers.owners import Owners
from scheduler_service.backends.kubernetes.controllers.recorder import Recorder
from scheduler_service.backends.kubernetes.controllers.scale_up import ScaleUp, Terms
from scheduler_service.backends.kubernetes.controllers.statuses import Statuses
from scheduler_service.backends.kubernetes.controllers.verdicts import Sight, Verdicts
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.objects import RawNamespace, RawPod, decoder
from scheduler_service.backends.kubernetes.watch import Reflector
from scheduler_service.grouping.settings import GroupingSettings

log = logging.getLogger("kai.controllers")
OnChange = Callable[[Any, Any], None]
Part = Callable[[], Awaitable[None]]
decode_namespace = decoder(RawNamespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The cluster as this process follows it."""

    client: KubeClient
    writes: Writes
    stores: Stores
    members: Mapping[str, set[str]]
    """The pods of each group."""
    scope: Callable[[], Scope]
    listen: Callable[[str, OnChange], None]
    observe_group: Callable[[bytes], None]
    memberships: Memberships
    troubles: Mapping[str, str]
    """Pods that can not be scheduled as they are written, and why."""


class Controllers:
    """Made before the cluster is followed; `run` is for the leader alone. Without an image no pod stands for shares."""

    def __init__(
        self, followed: Followed, *, namespace: str, reporter: str, scaling_image: str = ""
    ) -> None:
        self._followed = followed
        self._is_leading = False
        client = followed.client
        self.recorder = Recorder(followed.writes, reporter)
        self.namespaces: Reflector[RawNamespace] = Reflector(
            client, names.NAMESPACES, decode_namespace, self._namespace_changed
        )
        self.configs: Reflector[RawConfigMap] = Reflector(
            client,
            names.CONFIG_MAPS,
            decode_config_map,
            self._config_changed,
            namespace=namespace,
        )
        self.grouping = Grouping(
            Owners(client, self._owner_changed),
            followed.writes,
            self.recorder,
            ground=Ground(
                stores=followed.stores,
                members=followed.members,
                namespaces=self.namespaces.items,
                is_ours=self._is_ours,
                observe_group=followed.observe_group,
                memberships=followed.memberships,
            ),
            choices=Choices(self._settings()),
        )
        self.statuses = Statuses(followed.writes, followed.stores, followed.members)
        self.verdicts = Verdicts(
            client,
            followed.writes,
            self.recorder,
            Sight(
                stores=followed.stores,
                members=followed.members,
                scope=followed.scope,
                troubles=followed.troubles,
            ),
        )
        self.happenings = Happenings(self.recorder, followed.stores)
        self.state = State(followed.stores, self.statuses, followed.scope)
        self.metrics = Metrics(self.state)
        self.scale_up = None
        if scaling_image:
            terms = Terms(
                image=scaling_image,
                scope=followed.scope,
                is_held_by_queue=self.verdicts.is_held_by_queue,
            )
            self.scale_up = ScaleUp(client, followed.writes, followed.stores, terms)
        self._listen(followed.listen)

    def _listen(self, listen: Callable[[str, OnChange], None]) -> None:
        for controller in (self.grouping, self.statuses, self.verdicts):
            listen("pods", controller.pod_changed)
        listen("pods", self._pod_happened)
        listen("pods", self.metrics.pod_changed)
        if self.scale_up is not None:
            listen("pods", self.scale_up.pod_changed)
        for follower in (self.grouping, self.statuses):
            listen("groups", follower.group_changed)
        listen("queues", self.statuses.queue_changed)
        listen("nodes", self.statuses.node_changed)
        listen("classes", self.statuses.class_changed)
        listen("classes", self._class_changed)
        for kind in ("shards", "configs"):
            listen(kind, self._config_changed)

    def decided(self, turn: Turn) -> None:
        """Hear what was planned, and which of it was begun. The first plan may come before `run` has its turn."""
        self.state.plan = turn.plan
        self.metrics.decided(turn)
        self._is_leading = True
        self.verdicts.decided(turn.plan)
        self.happenings.decided(turn.plan, turn.accepted)

    async def run(self) -> None:
        """Do all that the controllers do, until cancelled."""
        parts = [
            self.namespaces.run,
            self.configs.run,
            self.recorder.run,
            self._group,
            self.statuses.groups.run,
            self.statuses.queue_work.run,
            self.verdicts.run,
        ]
        if self.scale_up is not None:
            parts.append(self.scale_up.run)
        self._is_leading = True
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part())

    async def _group(self) -> None:
        await self.namespaces.synced.wait()
        await self.configs.synced.wait()
        self._config_changed(None, None)
        await self.grouping.run()

    # -- what grouping depends on ------------------------------------------------------------------------
    def _settings(self) -> GroupingSettings:
        scope = self._followed.scope()
        return GroupingSettings(
            scheduler_names=scope.scheduler_names,
            default_queue=names.DEFAULT_QUEUE,
            node_pool_label=scope.pool_label,
        )

    def _is_ours(self, pod: RawPod) -> bool:
        """Whether a pod names our scheduler and is in our pool: another shard groups the others."""
        scope = self._followed.scope()
        return pod.spec.scheduler_name in scope.scheduler_names and scope.has(
            dict(pod.metadata.labels)
        )

    def _pod_happened(self, old: RawPod | None, new: RawPod | None) -> None:
        if self._is_leading and new is not None:
            self.happenings.pod_changed(old, new, is_ours=self._is_ours(new))

    def _owner_changed(self, pod: str) -> None:
        self.grouping.work.mark(pod)

    def _namespace_changed(self, old: RawNamespace | None, new: RawNamespace | None) -> None:
        if old is None or new is None or old.metadata.labels == new.metadata.labels:
            return
        for pod in self._followed.stores.pods.values():
            if pod.metadata.namespace == new.metadata.name:
                self.grouping.work.mark(pod.key)

    def _class_changed(self, old: object, new: object) -> None:
        if old is None or new is None:
            self.grouping.look_at_all()

    def _config_changed(self, _old: object, _new: object) -> None:
        """Take over what the ConfigMaps say now."""
        if not self.configs.synced.is_set():
            return
        found = choose(self.configs.items.values())
        for problem in found.problems:
            log.warning("%s", problem)
        before = self.grouping.choices
        self.grouping.choices = Choices(
            replace(self._settings(), kind_defaults=found.kind_defaults), found.rules
        )
        if before != self.grouping.choices:
            self.grouping.look_at_all()

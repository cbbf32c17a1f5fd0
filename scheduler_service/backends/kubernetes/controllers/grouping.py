"""Drives the pod grouper in a cluster: each pod of ours gets its group, and the group follows its workload.

Rules: 1. The group is written before a pod is in it; the pod is told with its binding, or a moment later. 2. What is
written is only what differs, for the version it was made from; who comes second looks again. 3. What grouping leaves
alone is left alone. 4. All is said by API objects: whoever leads next finds everything there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.controllers.memberships import (
    TOLD_AFTER_S,
    Memberships,
    is_membership_alone,
)
from scheduler_service.backends.kubernetes.controllers.news import of_pod
from scheduler_service.backends.kubernetes.controllers.owners import Owners
from scheduler_service.backends.kubernetes.controllers.recorder import Recorder
from scheduler_service.backends.kubernetes.controllers.surroundings import (
    Around,
    GroupIndex,
    pod_table,
)
from scheduler_service.backends.kubernetes.controllers.work import Work
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.backends.kubernetes.decode.stores import Stores
from scheduler_service.backends.kubernetes.encode.event import News
from scheduler_service.backends.kubernetes.encode.pod_group import as_table, change
from scheduler_service.backends.kubernetes.errors import Conflict, KubeError, NotFound
from scheduler_service.backends.kubernetes.objects import RawNamespace, RawPod
from scheduler_service.grouping import keys
from scheduler_service.grouping.description import (
    GroupDescription,
    Grouped,
    Needs,
    Outcome,
    Release,
    Ungroupable,
)
from scheduler_service.grouping.grouper import group_pod
from scheduler_service.grouping.manifest import manifest, merged, pod_patch
from scheduler_service.grouping.own_rules import NO_RULES, OwnRules
from scheduler_service.grouping.owners import OwnerGone
from scheduler_service.grouping.settings import GroupingSettings

log = logging.getLogger("kai.grouping")
MOST_READS = 64
"""More objects than any workload's answer needs."""
SOON_S = 0.5


@dataclass(slots=True)
class Choices:
    """What the cluster's owner says of grouping, as it is now."""

    settings: GroupingSettings
    rules: OwnRules = NO_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What grouping stands on: the cluster as it is followed, and whose pods it looks at."""

    stores: Stores
    members: Mapping[str, set[str]]
    namespaces: Mapping[str, RawNamespace]
    is_ours: Callable[[RawPod], bool]
    observe_group: Callable[[bytes], None]
    memberships: Memberships


class Grouping:
    """`pod_changed` and `group_changed` tell it what to look at; `run` writes groups and memberships."""

    def __init__(
        self,
        owners: Owners,
        writes: Writes,
        recorder: Recorder,
        *,
        ground: Ground,
        choices: Choices,
    ) -> None:
        self.choices = choices
        self._owners = owners
        self._writes = writes
        self._recorder = recorder
        self._stores = ground.stores
        self._ground = ground
        self._index = GroupIndex()
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._as_written: dict[str, tuple[GroupDescription, str]] = {}
        self.work = Work(self._look)

    # -- what changed ------------------------------------------------------------------------------------
    def pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        """Look at a pod that came, went, or changed in what grouping reads."""
        if self._ground.memberships.is_speaking:
            return
        if new is None:
            if old is not None:
                self.work.mark(old.key)
        elif old is None or self._reads_otherwise(old, new):
            self.work.mark(new.key)

    def _reads_otherwise(self, old: RawPod, new: RawPod) -> bool:
        """Whether a change means anything to grouping. A binding that told a pod its group, as we knew it, does not."""
        if _read_of(old) == _read_of(new):
            return False
        is_told = new.spec.node_name and not self._ground.memberships.is_untold(new)
        return not is_told or _unplaced(old) != _unplaced(new)

    def group_changed(self, old: RawPodGroup | None, new: RawPodGroup | None) -> None:
        """Note whose groups there are; a group that went is made anew if pods of it are left."""
        self._index.changed(old, new)
        if new is None and old is not None:
            key = old.metadata.key
            self._as_written.pop(key, None)
            self._locks.pop(key, None)
            for pod in self._ground.members.get(key, ()):
                self.work.mark(pod)

    def look_at_all(self) -> None:
        """Look at every pod again (the choices changed)."""
        self._as_written.clear()
        for key in self._stores.pods:
            self.work.mark(key)

    async def run(self) -> None:
        """Work for ever; end it by cancelling the task."""
        try:
            await self.work.run()
        finally:
            await self._owners.close()

    # -- one pod -------------------------------------------------------------------------------------------
    async def _look(self, key: str) -> bool:
        """Bring one pod into its group; False: try again later."""
        pod = self._stores.pods.get(key)
        if pod is None:
            self._owners.forget(key)
            self.work.forget(key)
            return True
        if pod.is_over or pod.metadata.deletion_timestamp or not self._ground.is_ours(pod):
            return True
        try:
            await self._bring_in(pod)
        except Conflict:
            self.work.mark(key, SOON_S)
        except KubeError as error:
            return self._troubled(pod, error)
        except Exception:
            log.exception("pod %s could not be grouped", key)
            return False
        return True

    def _troubled(self, pod: RawPod, error: KubeError) -> bool:
        """Tell of a fault, and return whether it does not matter: the pod is gone."""
        if isinstance(error, NotFound) and pod.key not in self._stores.pods:
            return True
        why = f"Its group could not be made out: {error} It is tried again."
        self._warn(pod, why)
        log.warning("pod %s could not be grouped: %s", pod.key, error)
        return False

    async def _bring_in(self, pod: RawPod) -> None:
        table = pod_table(pod)
        outcome = await self._outcome(pod, table)
        if isinstance(
            outcome, OwnerGone
        ):  # what is remembered may be of an earlier object of this name
            self._owners.doubt(pod.key)
            outcome = await self._outcome(pod, table)
        if isinstance(outcome, Grouped):
            await self._join(pod, table, outcome)
        elif isinstance(outcome, OwnerGone):
            await self._let_go(pod, Release.DELETED)
        elif isinstance(outcome, Ungroupable):
            self._warn(pod, outcome.sentence)

    async def _outcome(self, pod: RawPod, table: Mapping[str, Any]) -> Outcome:
        read = self._owners.reader(pod.key)
        around = Around(self._stores, self._ground.namespaces, self._index, read)
        for _ in range(MOST_READS):
            outcome = group_pod(
                table, around, settings=self.choices.settings, rules=self.choices.rules
            )
            if not isinstance(outcome, Needs):
                return outcome
            await self._owners.fetch(outcome.reference)
        return Ungroupable(f"More than {MOST_READS} objects decide to which group it belongs.")

    async def _join(self, pod: RawPod, table: Mapping[str, Any], grouped: Grouped) -> None:
        group = grouped.group
        key = f"{group.namespace}/{group.name}"
        async with self._locks[key]:
            await self._write_group(key, group)
        patch = pod_patch(table, grouped) or {}
        released = "" if grouped.released is None else grouped.released.value
        if pod.metadata.annotations.get(keys.RELEASED, "") != released:
            meta = patch.setdefault("metadata", {})
            meta.setdefault("annotations", {})[keys.RELEASED] = released or None
        await self._tell_pod(pod, patch, group.name)
        for note in grouped.notes:
            self._warn(pod, note)

    async def _tell_pod(self, pod: RawPod, patch: dict[str, Any], group: str) -> None:
        """Write what a pod should say; its group alone goes with its binding where that comes at once."""
        members = self._ground.memberships
        if members.is_untold(pod):
            if not patch and members.goes_with_binding(pod):
                self.work.mark(pod.key, TOLD_AFTER_S)
                return
            meta = patch.setdefault("metadata", {})
            meta.setdefault("annotations", {}).setdefault(keys.POD_GROUP, group)
        elif is_membership_alone(patch) and not pod.spec.node_name:
            members.assume(pod, group)
            self.work.mark(pod.key, TOLD_AFTER_S)
            return
        if patch:
            await self._patch_pod(pod, patch)

    async def _let_go(self, pod: RawPod, why: Release) -> None:
        """Have a pod that nobody wants any more not be placed."""
        if not pod.spec.node_name and pod.metadata.annotations.get(keys.RELEASED) != why.value:
            await self._patch_pod(pod, {"metadata": {"annotations": {keys.RELEASED: why.value}}})

    async def _patch_pod(self, pod: RawPod, patch: dict[str, Any]) -> None:
        meta = pod.metadata
        body = {**patch, "metadata": {**patch["metadata"], "uid": meta.uid}}
        await self._writes.patch(names.PODS.path(meta.namespace, meta.name), body)

    # -- the group -----------------------------------------------------------------------------------------
    async def _write_group(self, key: str, group: GroupDescription) -> None:
        existing = self._stores.groups.get(key)
        if existing is None:
            made = await self._writes.post(
                names.POD_GROUPS.path(group.namespace), manifest(group), want_body=True
            )
            self._ground.observe_group(made)
            self._note(key, group)
            return
        version = existing.metadata.resource_version
        if self._as_written.get(key) == (group, version):
            return
        if existing.metadata.deletion_timestamp:
            raise Conflict(409, "Conflict", f"The group {key} is being deleted.")
        old = as_table(existing)
        new = merged(group, old, self.choices.settings)
        if new is not None:
            path = names.POD_GROUPS.path(group.namespace, group.name)
            made = await self._writes.patch(path, change(old, new), want_body=True)
            self._ground.observe_group(made)
        self._note(key, group)

    def _note(self, key: str, group: GroupDescription) -> None:
        """Remember that a group stands as described, until it changes."""
        existing = self._stores.groups.get(key)
        if existing is not None:
            self._as_written[key] = (group, existing.metadata.resource_version)

    def _warn(self, pod: RawPod, sentence: str) -> None:
        self._recorder.tell(
            News(of_pod(pod), "Warning", names.EVENT_GROUPER_WARNING, sentence, "Grouping")
        )


def _read_of(pod: RawPod) -> tuple[object, ...]:
    """Return what of a pod grouping depends on."""
    meta = pod.metadata
    notes = {key: word for key, word in meta.annotations.items() if key != names.EVICTION_NOTICE}
    return (notes, bool(pod.spec.node_name), *_apart_from_notes(pod))


def _unplaced(pod: RawPod) -> tuple[object, ...]:
    """Return the same without what a binding writes."""
    left_out = {names.EVICTION_NOTICE, names.RECEIVED_TYPE}
    notes = {key: word for key, word in pod.metadata.annotations.items() if key not in left_out}
    return (notes, *_apart_from_notes(pod))


def _apart_from_notes(pod: RawPod) -> tuple[object, ...]:
    meta = pod.metadata
    return (
        meta.uid,
        meta.labels,
        meta.owner_references,
        bool(meta.deletion_timestamp),
        pod.spec.priority_class_name,
        pod.is_over,
    )

"""What grouping may ask about the cluster, answered from what this process follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.backends.kubernetes.decode.stores import Stores
from scheduler_service.backends.kubernetes.encode.pod_group import as_table, owner_table
from scheduler_service.backends.kubernetes.objects import RawNamespace, RawPod
from scheduler_service.grouping.objects import Raw
from scheduler_service.grouping.owners import Answer, Reference


def pod_table(raw: RawPod) -> dict[str, Any]:
    """Return the parts of a pod that grouping reads, as the API writes them."""
    meta, spec = raw.metadata, raw.spec
    metadata: dict[str, Any] = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "labels": meta.labels,
        "annotations": meta.annotations,
    }
    if meta.deletion_timestamp:
        metadata["deletionTimestamp"] = meta.deletion_timestamp
    if meta.owner_references:
        metadata["ownerReferences"] = [owner_table(each) for each in meta.owner_references]
    wanted: dict[str, Any] = {"schedulerName": spec.scheduler_name}
    if spec.priority_class_name:
        wanted["priorityClassName"] = spec.priority_class_name
    if spec.node_name:
        wanted["nodeName"] = spec.node_name
    status = {"phase": raw.status.phase} if raw.status.phase else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": wanted,
        "status": status,
    }


class GroupIndex:
    """The keys of the pod groups that an object owns."""

    def __init__(self) -> None:
        self.of_owner: dict[str, set[str]] = defaultdict(set)

    def changed(self, old: RawPodGroup | None, new: RawPodGroup | None) -> None:
        """Take note of a group that came, changed or went."""
        if old is not None:
            for owner in old.metadata.owner_references:
                self.of_owner[owner.uid].discard(old.metadata.key)
                if not self.of_owner[owner.uid]:
                    del self.of_owner[owner.uid]
        if new is not None:
            for owner in new.metadata.owner_references:
                self.of_owner[owner.uid].add(new.metadata.key)


class Around:
    """`grouping.Surroundings` on behalf of one pod."""

    def __init__(
        self,
        stores: Stores,
        namespaces: Mapping[str, RawNamespace],
        index: GroupIndex,
        read: Callable[[Reference], Answer],
    ) -> None:
        self._stores = stores
        self._namespaces = namespaces
        self._index = index
        self._read = read

    def read(self, reference: Reference) -> Answer:
        """Return an object, or why there is none."""
        return self._read(reference)

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Sequence[Raw]:
        """Return the pods that carry these labels."""
        return [
            pod_table(pod)
            for pod in self._stores.pods.values()
            if pod.metadata.namespace == namespace
            and labels.items() <= dict(pod.metadata.labels).items()
        ]

    def pod_groups(self, namespace: str, owner_uid: str) -> Sequence[Raw]:
        """Return KAI's pod groups that this object owns."""
        keys = self._index.of_owner.get(owner_uid, ())
        found = (self._stores.groups.get(key) for key in sorted(keys))
        return [
            as_table(group)
            for group in found
            if group is not None and group.metadata.namespace == namespace
        ]

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        raw = self._namespaces.get(namespace)
        return raw.metadata.labels if raw is not None else {}

    def has_priority_class(self, name: str) -> bool:
        """Tell whether there is a PriorityClass of this name."""
        return name in self._stores.classes

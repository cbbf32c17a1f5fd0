"""Knative: a group for each revision, or for each pod where gangs are switched off."""

from __future__ import annotations

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.objects import Kind, Object, whole
from scheduler_service.grouping.owners import Reference
from scheduler_service.grouping.shape import Shape, Workload, gang, group_a_pod, group_name

_REVISION = Kind("serving.knative.dev", "Revision")
_REVISION_LABEL = "serving.knative.dev/revision"
_MIN_SCALE = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")


def knative_service(work: Workload) -> Shape:
    """Return the gang of the pod's revision: as many pods as its minimal scale says, 0 included."""
    if not work.settings.knative_gangs or _is_grouped_by_pod(work):
        return group_a_pod(work)
    revision = _revision(work)
    texts = (revision.annotations.get(key) for key in _MIN_SCALE)
    scale = next((number for text in texts if (number := whole(text or "")) is not None), 1)
    shape = gang(work, minimum=scale)
    return msgspec.structs.replace(shape, name=group_name(revision), owner=revision)


def _revision(work: Workload) -> Object:
    above = work.owner(_REVISION)
    if above is not None:
        return above
    name = work.pod.labels.get(_REVISION_LABEL, "")
    place = Reference(work.top.api_version, _REVISION.name, work.pod.namespace, name)
    found = work.read(place) if name else None
    if found is None:
        raise work.pod.refusal(
            f"Its revision {name} can not be read." if name else f"It lacks {_REVISION_LABEL}.",
            hint="Look whether Knative's controller runs.",
        )
    return found


def _is_grouped_by_pod(work: Workload) -> bool:
    """Tell whether pods of this revision are in groups of their own already: then all are."""
    name = work.pod.labels.get(_REVISION_LABEL)
    if not name:
        return False
    same = work.around.pods(work.pod.namespace, {_REVISION_LABEL: name})
    return any(
        each.annotations.get(keys.POD_GROUP) == group_name(each) for each in map(Object, same)
    )

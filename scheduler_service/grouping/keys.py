"""The labels and annotations that grouping reads and writes: KAI's names, and those of the operators."""

QUEUE = "kai.scheduler/queue"
NODE_POOL = "kai.scheduler/node-pool"
PRIORITY_CLASS = "priorityClassName"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
PROJECT = "project"
USER = "user"

POD_GROUP = "pod-group-name"
SUB_GROUP = "kai.scheduler/subgroup-name"
SKIP = "kai.scheduler/skip-podgrouper"
TOP_OWNER = "kai.scheduler/top-owner-metadata"
RELEASED = "kai.scheduler/released"
OWNER_QUEUE = "kai.scheduler/owner-queue"
BATCH_MIN_MEMBER = "kai.scheduler/batch-min-member"
PREEMPTION_DELAY = "kai.scheduler/preemption-delay"
STALE_GRACE = "kai.scheduler/staleness-grace-period"

TOPOLOGY = "kai.scheduler/topology"
TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"

OWNER = "kai.scheduler/owner"
"""Who asked our API for this; admission lets nobody else write it."""
REQUEST = "kai.scheduler/request"
"""The name of that request, which its group has too."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

WRITTEN_AT_PLACING = frozenset(
    {
        "received-resource-type",
        "runai/shared-gpu-configmap",
        "kai.scheduler/eviction-notice",
        "kai.scheduler/gpu-assigned",
    }
)
"""Annotations of a pod that schedulers write when it gets or loses its place: they say nothing of its group."""
GPU_GROUP = "runai-gpu-group"
"""Begins the labels that name the shared GPUs of a pod; likewise."""

"""Every name that KAI's world has: resources, labels, annotations, conditions, reasons, defaults.

Rule: nobody spells such a name anywhere else. What grouping reads and writes stands in `grouping.keys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler_service.grouping import keys

# -- resources of the API ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object: where it lives in the API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What stands in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, sub: str | None = None
    ) -> str:
        """Return the path of the collection, of one object, or of its sub-resource."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, sub) if part is not None]
        return "/".join(parts)


PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
SERVICES: Final = Resource("", "v1", "services", "Service")
VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_CAPACITIES: Final = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"
)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_SLICES: Final = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False
)
DEVICE_CLASSES: Final = Resource(
    "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False
)
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
RUNTIME_CLASSES: Final = Resource(
    "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False
)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
WORKLOADS: Final = {
    "PyTorchJob": Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    "TrainJob": Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    "RayJob": Resource("ray.io", "v1", "rayjobs", "RayJob"),
}
"""What the API makes besides pods and Jobs, when it is asked for and installed."""

QUEUES: Final = Resource("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False)
POD_GROUPS: Final = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
BIND_REQUESTS: Final = Resource("scheduling.run.ai", "v1alpha2", "bindrequests", "BindRequest")
TOPOLOGIES: Final = Resource(
    "kai.scheduler", "v1alpha1", "topologies", "Topology", namespaced=False
)
SHARDS: Final = Resource(
    "kai.scheduler", "v1", "schedulingshards", "SchedulingShard", namespaced=False
)
CONFIGS: Final = Resource("kai.scheduler", "v1", "configs", "Config", namespaced=False)

TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)

# -- who we are ----------------------------------------------------------------------------------

SCHEDULER_NAME: Final = "kai-scheduler"
NAMESPACE: Final = "kai-scheduler"
CONFIG_NAME: Final = "kai-config"
FIELD_MANAGER: Final = "kai-scheduler"
LEASE_NAME: Final = "kai-scheduler"
ACCOUNT_SCHEDULER: Final = "kai-scheduler"
ACCOUNT_BINDER: Final = "kai-binder"
ACCOUNT_WEBHOOK: Final = "kai-webhook"
ACCOUNT_AGENT: Final = "kai-agent"
ACCOUNT_RESERVATION: Final = "kai-resource-reservation"
RESERVATION_NAMESPACE: Final = "kai-resource-reservation"
RESERVATION_APP: Final = "kai-resource-reservation"
SCALE_ADJUST_NAMESPACE: Final = "kai-scale-adjust"

# -- labels --------------------------------------------------------------------------------------

QUEUE_LABEL: Final = "kai.scheduler/queue"
NODE_POOL_LABEL: Final = "kai.scheduler/node-pool"
PRIORITY_CLASS_LABEL: Final = "priorityClassName"
PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
TASK_PRIORITY_LABEL: Final = "kai.scheduler/task-priority"
GPU_GROUP_LABEL: Final = "runai-gpu-group"
GPU_GROUP_PREFIX: Final = "runai-gpu-group/"
"""`runai-gpu-group/<group>` = `<group>`: one label a device where a share spans several."""
SELECTED_NODE_LABEL: Final = "selected-node"
GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
GPU_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
MIG_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
CPU_WORKER_LABEL: Final = "node-role.kubernetes.io/cpu-worker"
GPU_WORKER_LABEL: Final = "node-role.kubernetes.io/gpu-worker"
MIG_ENABLED_LABEL: Final = "node-role.kubernetes.io/mig-enabled"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
FAKE_GPU_LABEL: Final = "run.ai/fake.gpu"
MANAGED_LABEL: Final = "kai.scheduler/managed"
"""`true` on a namespace: GPUs are given by us alone there, and our API may make pods in it."""
REQUEST_LABEL: Final = keys.REQUEST
"""The name of the request that our API made an object for; on the object, its pods, its Service and its group."""
KIND_LABEL: Final = "kai.scheduler/kind"
"""What that request is for (lease, gang, kernel, batch): network policies and people select by it."""
SCALING_POD_NAME_LABEL: Final = "shared-gpu-pod-name"
SCALING_POD_NAMESPACE_LABEL: Final = "shared-gpu-pod-namespace"

# -- annotations -----------------------------------------------------------------------------------

POD_GROUP_ANNOTATION: Final = "pod-group-name"
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_FRACTION_DEVICES: Final = "gpu-fraction-num-devices"
GPU_FRACTION_CONTAINER: Final = "gpu-fraction-container-name"
MPS: Final = "mps"
SHARED_GPU_CONFIG_MAP: Final = "runai/shared-gpu-configmap"
RECEIVED_TYPE: Final = "received-resource-type"
RECEIVED_REGULAR: Final = "Regular"
RECEIVED_FRACTION: Final = "Fraction"
RESERVED_GPU: Final = "run.ai/reserve_for_gpu_index"
"""The UUID of the GPU that a reservation pod holds, in spite of the word index."""
RESERVED_FOR_PREFIX: Final = "reserved-for.kai.scheduler/"
"""On a reservation pod, one a user: `<prefix><pod UID>` = namespace/name of a pod that was given its GPU."""
STALE_SINCE: Final = "kai.scheduler/stale-podgroup-timestamp"
LAST_START: Final = "kai.scheduler/last-start-timestamp"
LAST_EVICTION: Final = "kai.scheduler/last-eviction-timestamp"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
OWNER_ANNOTATION: Final = keys.OWNER
"""Who asked through our API; trusted only when our own account wrote it."""
ASKED_ANNOTATION: Final = "kai.scheduler/asked"
"""JSON of the request as our API took it, without its work; trusted as the owner is."""
LEASE_ANNOTATION: Final = "kai.scheduler/lease-seconds"
"""On the PodGroup of a lease whose end was moved: seconds after the grant, or "none"."""
PAYLOAD_ANNOTATION: Final = "kai.scheduler/payload"
"""SHA-256 of the payload that the request's pods may fetch, of those that its owner uploaded; trusted alike."""
EVICTION_NOTICE: Final = "kai.scheduler/eviction-notice"
"""JSON on a pod that is being evicted: reason, sentence, when, for whom."""
DEVICES_ANNOTATION: Final = "kai.scheduler/gpu-devices"
"""JSON on a node, written by `kai agent`: its GPUs with UUID, memory and foreign processes."""
ASSIGNED_DEVICES: Final = "kai.scheduler/gpu-assigned"
"""JSON on a pod: the devices (UUIDs) a share was given, where the device registry names them."""
QUEUE_OVERLAY: Final = "kai.scheduler/queue-overlay"
"""JSON on a Queue: a lead's dated, audited change."""

QUEUE_LEADS: Final = "kai.scheduler/leads"
"""On a Queue: who answers for it, `user:NAME` and `group:NAME`, separated by commas."""

# -- resources of pods and nodes -----------------------------------------------------------------------

GPU_RESOURCE: Final = "nvidia.com/gpu"
MIG_PREFIX: Final = "nvidia.com/mig-"
GPU_MEMORY_RESOURCE: Final = "run.ai/gpu.memory"

# -- what a container with a share sees ------------------------------------------------------------------

ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
ENV_PORTION: Final = "GPU_PORTION"
ENV_NUM_GPUS: Final = "RUNAI_NUM_OF_GPUS"
ENV_MEMORY_LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT"
CDI_PREFIX: Final = "k8s.device-plugin.nvidia.com/gpu="

# -- conditions, reasons of events -----------------------------------------------------------------------

POD_SCHEDULED: Final = "PodScheduled"
POD_BOUND: Final = "PodBound"
DISRUPTION_TARGET: Final = "DisruptionTarget"
UNSCHEDULABLE: Final = "Unschedulable"
BINDING_ERROR: Final = "BindingError"
BOUND: Final = "Bound"
UNSCHEDULABLE_ON_POOL: Final = "UnschedulableOnNodePool"
REASON_NON_PREEMPTIBLE_OVER_QUOTA: Final = "NonPreemptibleOverQuota"
REASON_OVER_LIMIT: Final = "OverLimit"
REASON_QUEUE_MISSING: Final = "QueueDoesNotExist"
REASON_PREEMPTION_DELAY: Final = "PreemptionDelayNotElapsed"
EVENT_SCHEDULED: Final = "Scheduled"
EVENT_PIPELINED: Final = "Pipelined"
EVENT_UNSCHEDULABLE: Final = "Unschedulable"
EVENT_EVICT: Final = "Evict"
EVENT_STALE: Final = "StaleJob"
EVENT_NOT_READY: Final = "NotReady"
EVENT_FAILED_BINDING: Final = "FailedBinding"
EVENT_GROUPER_WARNING: Final = "PodGrouperWarning"

PHASE_PENDING: Final = "Pending"
PHASE_SUCCEEDED: Final = "Succeeded"
PHASE_FAILED: Final = "Failed"

# -- defaults ------------------------------------------------------------------------------------------

DEFAULT_QUEUE: Final = "default-queue"
DEFAULT_PARENT_QUEUE: Final = "default-parent-queue"
DEFAULT_QUEUE_PRIORITY: Final = 100
DEFAULT_PRIORITY: Final = 50
NON_PREEMPTIBLE_FROM: Final = 100
PRIORITY_OF_CLASS: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
DEFAULT_NODE_POOL: Final = "default"

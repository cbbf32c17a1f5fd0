"""One row for each kind of workload that is known. What is not here is one group for each owner.

A row is found by group and kind; the version does not matter. `skips`: the group is made by what
this object owns, which inherits its labels. `follows`: the kind says nothing of gangs, so a Volcano
PodGroup that its pods name is believed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_service.grouping.kinds import (
    grove,
    jobset,
    knative,
    kubeflow,
    leader_worker_set,
    plain,
    ray,
    volcano,
)
from scheduler_service.grouping.lifecycle import ENDED_BY_CONDITION, NO_END, POD_ENDS, Ends
from scheduler_service.grouping.objects import Kind
from scheduler_service.grouping.shape import ShapeOf, group_a_pod, one_group

TRAIN, BUILD, INFERENCE = "train", "build", "inference"
_JOB_ENDS = Ends(asleep=("spec.suspend",), conditions=ENDED_BY_CONDITION)
_TRAINING_ENDS = Ends(
    asleep=("spec.runPolicy.suspend",), conditions={"Succeeded": ("True",), "Failed": ("True",)}
)
_RAY_JOB_ENDS = Ends(
    asleep=("spec.suspend",),
    phase="status.jobDeploymentStatus",
    finished=("Complete", "Failed"),
    sleeping=("Suspended",),
)
_WORKFLOW_ENDS = Ends(finished=("Succeeded", "Failed", "Error"))
_TEKTON_ENDS = Ends(conditions={"Succeeded": ("True", "False")})
_SPARK_ENDS = Ends(phase="status.applicationState.state", finished=("COMPLETED", "FAILED"))
_VOLCANO_ENDS = Ends(
    phase="status.state.phase",
    finished=("Completed", "Failed", "Terminated"),
    sleeping=("Aborted",),
)
_NOTEBOOK_ENDS = Ends(asleep_annotation="kubeflow-resource-stopped")


class Row(msgspec.Struct, frozen=True):
    """What is known of a kind."""

    group: str
    kind: str
    shape: ShapeOf = one_group
    priority_class: str = TRAIN
    ends: Ends = NO_END
    skips: bool = False
    follows: bool = False


UNKNOWN = Row("", "", follows=True)

_ROWS = (
    Row("", "Pod", plain.pod, ends=POD_ENDS, follows=True),
    Row("apps", "Deployment", group_a_pod, INFERENCE, follows=True),
    Row("apps", "ReplicaSet", follows=True),
    Row("apps", "StatefulSet", follows=True),
    Row("batch", "Job", plain.job, ends=_JOB_ENDS, follows=True),
    Row("batch", "CronJob", plain.job, follows=True),
    Row("kubeflow.org", "TFJob", kubeflow.training_job("tfReplicaSpecs"), ends=_TRAINING_ENDS),
    Row("kubeflow.org", "PyTorchJob", kubeflow.pytorch_job, ends=_TRAINING_ENDS),
    Row(
        "kubeflow.org",
        "XGBoostJob",
        kubeflow.training_job("xgbReplicaSpecs", "Master", "Worker"),
        ends=_TRAINING_ENDS,
    ),
    Row(
        "kubeflow.org",
        "JAXJob",
        kubeflow.training_job("jaxReplicaSpecs", "Worker"),
        ends=_TRAINING_ENDS,
    ),
    Row("kubeflow.org", "MPIJob", kubeflow.mpi_job, ends=_TRAINING_ENDS),
    Row("kubeflow.org", "Notebook", priority_class=BUILD, ends=_NOTEBOOK_ENDS),
    Row("kubeflow.org", "ScheduledWorkflow"),
    Row("trainer.kubeflow.org", "TrainJob", ends=_JOB_ENDS, skips=True),
    Row("jobset.x-k8s.io", "JobSet", jobset.job_set, ends=_JOB_ENDS),
    Row("leaderworkerset.x-k8s.io", "LeaderWorkerSet", leader_worker_set.leader_worker_set),
    Row("ray.io", "RayCluster", ray.ray(), ends=Ends(asleep=("spec.suspend",))),
    Row("ray.io", "RayJob", ray.ray("status.rayClusterName"), ends=_RAY_JOB_ENDS),
    Row(
        "ray.io",
        "RayService",
        ray.ray(
            "status.activeServiceStatus.rayClusterName",
            "status.pendingServiceStatus.rayClusterName",
        ),
    ),
    Row("serving.knative.dev", "Service", knative.knative_service, INFERENCE),
    Row("machinelearning.seldon.io", "SeldonDeployment"),
    Row("kubevirt.io", "VirtualMachineInstance", ends=POD_ENDS),
    Row("kubevirt.io", "VirtualMachine"),
    Row("workspace.devfile.io", "DevWorkspace", ends=Ends(awake=("spec.started",))),
    Row("tekton.dev", "PipelineRun", ends=_TEKTON_ENDS),
    Row("tekton.dev", "TaskRun", ends=_TEKTON_ENDS),
    Row("argoproj.io", "Workflow", ends=_WORKFLOW_ENDS, skips=True),
    Row("sparkoperator.k8s.io", "SparkApplication", plain.spark_application, ends=_SPARK_ENDS),
    Row("amlarc.azureml.com", "AmlJob", plain.aml_job),
    Row("egx.nvidia.io", "SPOTRequest", priority_class=INFERENCE),
    Row("grove.io", "PodGangSet", grove.pod_clique_set),
    Row("grove.io", "PodCliqueSet", grove.pod_clique_set),
    Row("nvidia.com", "DynamoGraphDeployment", skips=True),
    Row("batch.volcano.sh", "Job", volcano.volcano_job, ends=_VOLCANO_ENDS),
    Row("scheduling.volcano.sh", "PodGroup", volcano.volcano_pod_group),
    Row("run.ai", "RunaiJob", plain.run_ai_job, ends=_JOB_ENDS),
    Row("run.ai", "TrainingWorkload", skips=True),
    Row("run.ai", "InteractiveWorkload", skips=True),
    Row("run.ai", "DistributedWorkload", skips=True),
    Row("run.ai", "InferenceWorkload", skips=True),
    Row("run.ai", "DistributedInferenceWorkload", skips=True),
)
TABLE: Mapping[Kind, Row] = {Kind(row.group, row.kind): row for row in _ROWS}

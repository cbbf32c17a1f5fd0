"""What other schedulers may not do in a namespace that is ours to keep. Pure."""

from __future__ import annotations

from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.pods import scheduler_of, uses_gpu
from scheduler_service.backends.kubernetes.admission.review import ALLOWED, Answer, Request

NODES = "system:nodes"


def others_answer(request: Request, options: Options) -> Answer:
    """Return a refusal for a new pod that wants GPUs past every queue; all else is none of our business."""
    pod = request.object
    if not request.is_new or scheduler_of(pod) == options.scheduler_name or not uses_gpu(pod):
        return ALLOWED
    if options.is_trusted(request.user, request.groups) or NODES in request.groups:
        return ALLOWED
    named = scheduler_of(pod) or "default-scheduler"
    sentence = (
        f"In the namespace '{request.namespace}' GPUs are given by {options.scheduler_name}, and this pod "
        f"names the scheduler '{named}'. Set spec.schedulerName to {options.scheduler_name}."
    )
    return Answer((sentence,))

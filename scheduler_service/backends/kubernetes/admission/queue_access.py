"""Who may ask which queue, from where. Pure.

Rules: 1. A queue without `subjects` and `namespaces` serves everybody, as in KAI. 2. Where both stand, both count.
3. Controllers make pods for what others wrote: their pods are judged by the namespace; whoever wrote the object was
judged when they named the queue. 4. What our own accounts write is judged by the namespace alone.
"""

from __future__ import annotations

from scheduler_service.backends.kubernetes.admission.facts import Facts, QueueFacts
from scheduler_service.backends.kubernetes.admission.options import ADMINISTRATORS, Options
from scheduler_service.backends.kubernetes.admission.pods import owner_uids
from scheduler_service.backends.kubernetes.admission.review import (
    ALLOWED,
    Answer,
    Object,
    Request,
    labels_of,
    mapping,
    text,
)

EVERYBODY = "*"
TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
"""Where an object keeps the pods that it will make."""


def asked_queue(of: Object, options: Options) -> str:
    """Return the queue that an object names for itself or for its pods; "" = none."""
    own = labels_of(of).get(options.queue_label)
    if isinstance(own, str) and own:
        return own
    for path in TEMPLATES:
        found = text(mapping(of, *path), "metadata", "labels", options.queue_label)
        if found:
            return found
    return ""


def named_queue(request: Request, options: Options) -> str:
    """Return the queue a request is about: what it names now; a pod that names none and has no owner: the default."""
    if request.kind == "PodGroup":
        return text(request.object, "spec", "queue")
    named = asked_queue(request.object, options)
    if not named and request.kind == "Pod" and not owner_uids(request.object):
        return options.default_queue
    return named


def queue_answer(request: Request, facts: Facts, options: Options) -> Answer:
    """Return whether the queue exists and may be asked; what was judged before is not judged again."""
    name = named_queue(request, options)
    if not name or (not request.is_new and name == _before(request, options)):
        return ALLOWED
    queue = facts.queues.get(name)
    if queue is None:
        return _missing(request, name, options)
    refusal = _refusal(request, queue, options)
    if refusal:
        return Answer((refusal,))
    if below := facts.children(name):
        return Answer(warnings=(_not_a_leaf(name, below),))
    return ALLOWED


def _before(request: Request, options: Options) -> str:
    old = Request(kind=request.kind, object=request.old)
    return named_queue(old, options)


def _missing(request: Request, name: str, options: Options) -> Answer:
    """A name that was written must be right; the default queue may be missing, then it is told elsewhere."""
    if request.kind == "Pod" and not asked_queue(request.object, options):
        return ALLOWED
    sentence = (
        f"There is no queue '{name}'. 'kubectl get queues' lists them; the label "
        f"{options.queue_label} names one."
    )
    if request.kind == "PodGroup":
        return Answer(warnings=(f"{sentence} The group waits until the queue is made.",))
    return Answer((sentence,))


def _not_a_leaf(name: str, below: list[str]) -> str:
    return (
        f"The queue '{name}' has queues below it and takes no requests itself; "
        f"choose one of them: {', '.join(below[:5])}."
    )


def _refusal(request: Request, queue: QueueFacts, options: Options) -> str:
    allowed = queue.namespaces
    if allowed is not None and EVERYBODY not in allowed and request.namespace not in allowed:
        return (
            f"The queue '{queue.name}' can not be asked from the namespace '{request.namespace}'. "
            f"Its namespaces are: {', '.join(allowed) or 'none'}. Choose another queue, or ask who "
            "keeps this one."
        )
    if _is_known_otherwise(request, options) or _is_subject(request, queue.subjects):
        return ""
    return (
        f"The queue '{queue.name}' is not yours to ask: {_who(request.user)} is none of its subjects. "
        "Choose another queue, or ask who keeps this one."
    )


def _is_known_otherwise(request: Request, options: Options) -> bool:
    """Whether the person behind the request was judged elsewhere: by our API, when they wrote the owner, or nowhere."""
    if options.is_ours(request.user) or ADMINISTRATORS & request.groups:
        return True
    return options.is_controller(request.user) and bool(owner_uids(request.object))


def _is_subject(request: Request, subjects: tuple[str, ...] | None) -> bool:
    if subjects is None or EVERYBODY in subjects or f"user:{request.user}" in subjects:
        return True
    return any(f"group:{group}" in subjects for group in request.groups)


def _who(user: str) -> str:
    return f"'{user}'" if user else "whoever asks"

"""What the planner tried out and found to help, as people read and take it: in words, as a request, as a line of code.

Rule: which changes help is for the planner alone to say (`planning.offers`); here they are only worded. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, WholeGpus
from scheduler_service.model.quantities import gpu_words, mib_words
from scheduler_service.planning.forecast import CounterOffer
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import ActionId, ActionView, Submit

WHOLE = 1000
ETA_WORDS = {"now": "now", "by_eviction": "once others have made room"}


def worded(record: GroupRecord, offer: CounterOffer) -> ActionView | None:
    """Return an offer of another form of a request; None if it is none, or can not be written down."""
    ask = replace(record.ask, queue=record.queue, name=None)
    eta_text, change = ETA_WORDS.get(offer.forecast.verdict), offer.change
    if change.gpu is not None:
        return _smaller(ask, change.gpu, eta_text)
    if change.pods is not None:
        fewer = replace(ask, workers=change.pods, min_members=None)
        return _view("smaller", f"Use {change.pods}", eta_text, fewer)
    if change.preemptible:
        label, submit = f"{_amount(ask)} that may be taken back", replace(ask, preemptible=True)
        return _view("smaller", label, eta_text, submit, _code(ask, "--preemptible"))
    if change.queue is not None:
        submit, code = replace(ask, queue=change.queue), _code(ask, f"--queue {change.queue}")
        return _view("switch_queue", f"In queue {change.queue}", eta_text, submit, code)
    return None


def _view(
    action: ActionId, label: str, eta_text: str | None, submit: Submit, code: str | None = None
) -> ActionView:
    return ActionView(id=action, label=label, eta_text=eta_text, submit=submit, code=code)


def _smaller(ask: Submit, gpu: GpuRequest, eta_text: str | None) -> ActionView | None:
    match gpu:
        case WholeGpus(count=count):
            words, submit = gpu_words(count * WHOLE), replace(ask, gpu=str(count), devices=1)
        case FractionOfGpu(milli=milli, devices=devices):
            words = gpu_words(milli)
            submit = replace(ask, gpu=words.partition(" ")[0], devices=devices)
        case GpuMemory(mib=mib, devices=devices):
            words = f"{mib_words(mib)} of GPU memory"
            submit = replace(ask, gpu=None, gpu_memory=f"{mib}", devices=devices)
        case _:
            return None
    label = words if submit.devices == 1 else f"{submit.devices} × {words}"
    if ask.workers > 1:
        label = f"{ask.workers} workers × {label}"
    return _view("smaller", label, eta_text, submit, _code(submit))


def _amount(ask: Submit) -> str:
    return f"{ask.gpu} GPU" if ask.gpu is not None else str(ask.gpu_memory or "CPU")


def _code(ask: Submit, flag: str = "") -> str | None:
    """Return the same as a line of notebook code, where there is one."""
    if ask.kind != "lease":
        return None
    memory = ask.gpu_memory or "0"
    if memory.isdigit():
        memory = mib_words(int(memory)).replace(" ", "")
    words = [f"%gpu --memory {memory}" if ask.gpu is None else f"%gpu {ask.gpu}"]
    words += [f"--devices {ask.devices}"] if ask.devices > 1 else []
    return " ".join([*words, flag] if flag else words)


def ending_words(offer: CounterOffer, eta_text: str) -> str:
    """Return whose end would help: how much of which queue, and when; never whose group it is."""
    words = offer.what.rpartition(" (")[0]
    when = f", {eta_text}" if eta_text else ""
    return f"{words[:1].upper()}{words[1:]}{when}."

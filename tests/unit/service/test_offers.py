"""The planner's offers as requests, labels and lines of code."""

from __future__ import annotations

import pytest

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, Mig, WholeGpus
from scheduler_service.model.pod import PodRequest
from scheduler_service.planning.forecast import Change, CounterOffer, Forecast
from scheduler_service.service.offers import ending_words, worded
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import Submit

NOW = Forecast("now")


def record(**asked: object) -> GroupRecord:
    ask = Submit(**asked)
    return GroupRecord(
        name="mine",
        namespace="ana",
        owner="ana",
        queue="team",
        priority=100,
        preemptible=False,
        min_members=ask.workers,
        request=PodRequest(),
        ask=ask,
        order=1,
        created_at=0,
        pods=(),
    )


@pytest.mark.parametrize(
    ("asked", "change", "label", "code"),
    [
        ({"gpu": 1}, Change(gpu=FractionOfGpu(500)), "0.5 GPU", "%gpu 0.5"),
        (
            {"gpu": 1},
            Change(gpu=FractionOfGpu(500, devices=2)),
            "2 × 0.5 GPU",
            "%gpu 0.5 --devices 2",
        ),
        ({"gpu": 4}, Change(gpu=WholeGpus(2)), "2 GPUs", "%gpu 2"),
        (
            {"gpu_memory": "8GiB"},
            Change(gpu=GpuMemory(4096)),
            "4 GiB of GPU memory",
            "%gpu --memory 4GiB",
        ),
        (
            {"gpu": 1},
            Change(preemptible=True),
            "1 GPU that may be taken back",
            "%gpu 1 --preemptible",
        ),
        ({"gpu": 1}, Change(queue="other"), "In queue other", "%gpu 1 --queue other"),
    ],
)
def test_an_offer_of_a_lease_is_a_request_and_a_line_of_code(asked, change, label, code):
    view = worded(record(kind="lease", **asked), CounterOffer("", NOW, change))

    assert view is not None
    assert (view.label, view.code, view.eta_text) == (label, code, "now")
    assert view.submit is not None
    assert view.submit.queue == (change.queue or "team")


def test_a_gang_is_offered_fewer_workers_or_less_for_each():
    gang = record(kind="gang", gpu=1, workers=4)
    fewer = worded(gang, CounterOffer("", NOW, Change(pods=3)))
    smaller = worded(gang, CounterOffer("", NOW, Change(gpu=FractionOfGpu(250))))

    assert fewer is not None
    assert smaller is not None
    assert (fewer.label, fewer.submit and fewer.submit.workers) == ("Use 3", 3)
    assert (smaller.label, smaller.code) == ("4 workers × 0.25 GPU", None)


def test_what_only_helps_once_others_have_made_room_says_so():
    offer = CounterOffer("", Forecast("by_eviction"), Change(queue="other"))
    view = worded(record(kind="lease", gpu=1), offer)

    assert view is not None
    assert view.eta_text == "once others have made room"


def test_an_ending_and_a_form_that_can_not_be_written_are_no_requests():
    gone = CounterOffer("fits if 1 GPU of team ends (ben/secret)", NOW, Change(endings=("ben/s",)))

    assert worded(record(gpu=1), gone) is None
    assert worded(record(gpu=1), CounterOffer("", NOW, Change(gpu=Mig(())))) is None
    assert ending_words(gone, "about 6 min") == "Fits if 1 GPU of team ends, about 6 min."
    assert ending_words(gone, "") == "Fits if 1 GPU of team ends."

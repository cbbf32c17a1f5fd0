"""Whose a projected token is: only a pod of our account, bound to that pod."""

import pytest

from scheduler_service.backends.kubernetes.reviews import Person
from scheduler_service.backends.kubernetes.workloads.identity import OwnPod, pod_of

USER = "system:serviceaccount:lab:kai-work"
NAME, UID = (f"authentication.kubernetes.io/pod-{what}" for what in ("name", "uid"))
BOUND = ((NAME, ("work",)), (UID, ("u1",)))


def test_a_token_that_is_bound_to_a_pod_names_it():
    assert pod_of(Person(USER, extra=BOUND)) == OwnPod("lab", "work", "u1")


@pytest.mark.parametrize(
    ("user", "extra"),
    [
        (USER, ()),
        (USER, BOUND[:1]),
        (USER, BOUND[1:]),
        (USER, ((NAME, ("a", "b")), (UID, ("u1",)))),
        ("system:serviceaccount:lab:default", BOUND),
        ("system:serviceaccount:kai-work", BOUND),
        ("kai-work", BOUND),
        ("lab:kai-work", BOUND),
    ],
)
def test_everybody_else_is_no_pod_of_ours(user, extra):
    assert pod_of(Person(user, extra=extra)) is None

"""`kai webhook` when it is away and when it comes back: nobody but ours waits, nothing is let in unseen."""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.admission_bed import (
    ADMISSION_API,
    AUTHORITY,
    Webhook,
    admission,
    answer,
    person,
    pod,
    pods,
    wait_until,
)
from tests.cluster.testbed.admin import ApiError
from tests.cluster.testbed.process import FAIL_SAFE_S


@pytest.fixture(scope="module")
def webhook(kai_cluster):
    with admission(kai_cluster) as running:
        yield running


def test_a_dead_webhook_stops_nobody_but_ours_and_comes_back_trusted(
    kai_cluster, webhook, namespace
):
    admin = kai_cluster.admin
    ana = person(kai_cluster, namespace, "ana")
    ours = pod(namespace, name="ours")
    ours["metadata"]["finalizers"] = ["example.com/wait"]
    ana.create(ours)
    webhook.kill()
    try:
        other = pod(namespace, name="other", queue="", scheduler="default-scheduler")
        assert ana.create(other)["metadata"]["name"] == "other"
        managed = kai_cluster.new_namespace(**{"kai.scheduler/managed": "true"})
        gpu = pod(managed, queue="", scheduler="default-scheduler", limits={"nvidia.com/gpu": "1"})
        assert answer(admin, gpu) == ""
        path = f"{pods(namespace)}/ours"
        admin.patch(path, {"metadata": {"finalizers": None}})
        admin.delete(path, grace_s=0)
        admin.wait_until_gone(path)
        assert "failed calling webhook" in answer(ana, pod(namespace, name="late"))
    finally:
        webhook.start()
    wait_until(lambda: answer(ana, pod(namespace, name="late")) == "")


def test_killed_again_and_again_it_lets_no_share_in_unseen(kai_cluster, webhook, namespace):
    """People try again when told that nobody answers; what is stored then was seen by us, each once."""
    ana = person(kai_cluster, namespace, "ana")
    made = []

    def make(number):
        shared = pod(namespace, name=f"s-{number}", annotations={"gpu-fraction": "0.5"})
        end = time.monotonic() + FAIL_SAFE_S
        while time.monotonic() < end:
            try:
                made.append(ana.create(shared))
            except ApiError as error:
                if "failed calling webhook" not in error.message:
                    raise
                time.sleep(0.1)
            else:
                return

    with ThreadPoolExecutor(4) as hands:
        waiting = [hands.submit(make, number) for number in range(120)]
        for share_of_them in (10, 40, 70):
            wait_until(lambda so_many=share_of_them: len(made) >= so_many)
            webhook.kill()
            webhook.start()
        for one in waiting:
            one.result()
    stored = kai_cluster.admin.list(pods(namespace))
    prefixes = {one["metadata"]["annotations"]["runai/shared-gpu-configmap"] for one in stored}
    assert len(stored) == len(prefixes) == 120
    assert all(one["spec"]["containers"][0]["envFrom"] for one in stored)


def test_a_lost_authority_is_made_anew_and_trusted(kai_cluster, webhook, namespace):
    admin = kai_cluster.admin
    before = admin.get(AUTHORITY)["data"]
    webhook.kill()
    try:
        admin.patch(AUTHORITY, {"data": None})
    finally:
        webhook.start()
    after = admin.get(AUTHORITY)["data"]
    assert after["ca.crt"] != before["ca.crt"]
    ana = person(kai_cluster, namespace, "ana")
    wait_until(lambda: answer(ana, pod(namespace, queue="nowhere")).count("There is no queue") == 1)


def test_a_second_replica_shares_the_authority(kai_cluster, webhook):
    second = Webhook(kai_cluster)
    before = kai_cluster.admin.get(AUTHORITY)["data"]
    second.start()
    try:
        assert kai_cluster.admin.get(AUTHORITY)["data"] == before
        path = f"{ADMISSION_API}/validatingwebhookconfigurations/kai-admission"
        bundles = {
            hook["clientConfig"]["caBundle"] for hook in kai_cluster.admin.get(path)["webhooks"]
        }
        assert bundles == {before["ca.crt"]}
        assert reachable(second.port, before["ca.crt"])
    finally:
        second.kill()


def reachable(port, ca):
    trust = ssl.create_default_context(cadata=base64.b64decode(ca).decode())
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/validate--v1-pod", b"{}")
        return connection.getresponse().status == 400

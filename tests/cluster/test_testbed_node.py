"""The real node: processes that run, devices that the kubelet gives, names that are found."""

from __future__ import annotations

import json
from signal import SIGKILL
from typing import Any

from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.player import GPU
from tests.cluster.testbed.real_node import NAME, RealNode

SHOW = """
import json, os, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
trust = ssl.create_default_context(cafile=f"{place}/ca.crt")
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
token = open(f"{place}/token").read()
ask = urllib.request.Request(f"https://{host}:{port}/version", headers={"Authorization": "Bearer " + token})
version = json.load(urllib.request.urlopen(ask, context=trust))["gitVersion"]
import scheduler_service, numpy
print(json.dumps({"devices": os.environ.get("NVIDIA_VISIBLE_DEVICES"), "version": version}))
"""
ANSWER = "import socket; s = socket.create_server(('', 7000)); c, _ = s.accept(); c.send(b'hello')"
ASK = """
import socket, sys, time
for _ in range(600):
    try:
        print(socket.create_connection((sys.argv[1], 7000), 5).recv(9).decode())
        break
    except OSError:
        time.sleep(0.1)
"""


def on_node(pod: Any) -> Any:
    pod["spec"]["nodeName"] = NAME
    return pod


def is_in(phase: str) -> Any:
    return lambda one: one["status"].get("phase") == phase


def has_ended(pod: Any) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def run(cluster: Cluster, pod: Any) -> str:
    """Run a pod on the node to its end and return what it printed."""
    path = cluster.admin.path_of(cluster.admin.create(on_node(pod)))
    ended = cluster.admin.wait_for_one(path, has_ended, f"{path} ends")
    printed = cluster.admin.text(f"{path}/log")
    assert ended["status"]["phase"] == "Succeeded", printed
    return printed


def test_a_pod_gets_devices_and_reaches_the_api(
    cluster: Cluster, real_node: RealNode, namespace: str
) -> None:
    pod = real_node.pod("show", namespace, ["python3", "-c", SHOW], gpus=2)
    told = json.loads(run(cluster, pod))
    devices = told["devices"].split(",")
    assert len(set(devices)) == 2
    assert all(one.startswith("GPU-real-") for one in devices)
    assert told["version"] == "v1.34.4"


def test_our_command_line_is_in_the_image(
    cluster: Cluster, real_node: RealNode, namespace: str
) -> None:
    assert "serve" in run(cluster, real_node.pod("help", namespace, ["kai", "--help"]))


def test_pods_find_each_other_by_the_name_of_a_headless_service(
    cluster: Cluster, real_node: RealNode, namespace: str
) -> None:
    cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "gang", "namespace": namespace},
            "spec": {
                "clusterIP": "None",
                "selector": {"of": "gang"},
                "publishNotReadyAddresses": True,
                "ports": [{"port": 7000}],
            },
        }
    )
    server = on_node(
        real_node.pod("w-0", namespace, ["python3", "-c", ANSWER], labels={"of": "gang"})
    )
    server["spec"] |= {"hostname": "w-0", "subdomain": "gang"}
    cluster.admin.create(server)
    name = f"w-0.gang.{namespace}.svc.cluster.local"
    said = run(cluster, real_node.pod("asks", namespace, ["python3", "-c", ASK, name]))
    assert said.strip() == "hello"


def test_a_deleted_pod_gets_its_notice(
    cluster: Cluster, real_node: RealNode, namespace: str
) -> None:
    """Grace on a real node: SIGTERM first, and time to end."""
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('up', flush=True); signal.pause()"
    )
    path = cluster.admin.path_of(
        cluster.admin.create(on_node(real_node.pod("leaves", namespace, ["python3", "-c", code])))
    )
    cluster.admin.wait_for_one(path, is_in("Running"), "it runs")
    cluster.admin.delete(path)
    cluster.admin.wait_until_gone(path)


def test_a_device_that_breaks_is_told_and_comes_back(cluster: Cluster, real_node: RealNode) -> None:
    def offers(count: int) -> Any:
        return lambda node: node["status"]["allocatable"].get(GPU) == str(count)

    ids = [f"GPU-real-{index:04d}" for index in range(4)]
    real_node.offer(*ids[:3], f"{ids[3]} unhealthy")
    cluster.admin.wait_for_one(f"/api/v1/nodes/{NAME}", offers(3), "one device less")
    real_node.offer(*ids)
    cluster.admin.wait_for_one(f"/api/v1/nodes/{NAME}", offers(4), "all devices again")


def test_a_kubelet_that_is_killed_keeps_its_pods(
    cluster: Cluster, real_node: RealNode, namespace: str
) -> None:
    pod = real_node.pod("stays", namespace, ["sleep", "infinity"], gpus=1)
    path = cluster.admin.path_of(cluster.admin.create(on_node(pod)))
    before = cluster.admin.wait_for_one(path, is_in("Running"), "it runs")
    real_node.signal("kubelet", SIGKILL)
    run(cluster, real_node.pod("next", namespace, ["true"], gpus=1))
    after = cluster.admin.get(path)
    assert [one["containerID"] for one in after["status"]["containerStatuses"]] == [
        one["containerID"] for one in before["status"]["containerStatuses"]
    ]

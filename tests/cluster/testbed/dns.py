"""The cluster's DNS for pods on the real node: services, and the pods behind headless ones.

There is no kube-proxy, so the name of a service gives the addresses of its endpoints, whatever
kind of service it is. Each question is answered from the API at once: nothing is stale.

    python -m tests.cluster.testbed.dns KUBECONFIG ADDRESS
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

import yaml

from tests.cluster.testbed.admin import Admin, Object
from tests.cluster.testbed.identity import Login

SUFFIX = (".svc", ".cluster", ".local")
PORT = 53
HEADER = 12
TYPE_A = 1
ANSWERED, UNKNOWN = 0x8580, 0x8583  # authoritative; the second says that there is no such name
TTL_S = 1


class Names:
    """Addresses of names, asked of the API."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def addresses(self, name: str) -> list[str] | None:
        """Return the addresses of a name, possibly none yet; None when it does not exist."""
        parts = name.lower().rstrip(".").removesuffix("".join(SUFFIX)).split(".")
        if name.rstrip(".") == ".".join(parts) or not 2 <= len(parts) <= 3:
            return None
        namespace, service = parts[-1], parts[-2]
        found = self._admin.find(f"/api/v1/namespaces/{namespace}/services/{service}")
        if found is None:
            return None
        slices = self._admin.list(
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
            labelSelector=f"kubernetes.io/service-name={service}",
        )
        host = parts[0] if len(parts) == 3 else None
        reached = sorted({one for part in slices for one in _addresses(part, host)})
        own = found["spec"].get("clusterIP", "None")
        return reached or ([own] if own != "None" and not slices else []) or (None if host else [])


def _addresses(part: Object, host: str | None) -> list[str]:
    return [
        address
        for endpoint in part.get("endpoints") or ()
        if endpoint.get("conditions", {}).get("ready", True)
        if host is None or endpoint.get("hostname") == host
        for address in endpoint["addresses"]
    ]


def answer(question: bytes, names: Names) -> bytes:
    """Return the datagram that answers one question."""
    name, end = _name_in(question)
    (kind,) = struct.unpack_from("!H", question, end)
    found = names.addresses(name)
    told = (found or []) if kind == TYPE_A else []
    flags = UNKNOWN if found is None else ANSWERED
    head = struct.pack("!2s5H", question[:2], flags, 1, len(told), 0, 0)
    rows = [struct.pack("!3HIH4s", 0xC00C, TYPE_A, 1, TTL_S, 4, socket.inet_aton(a)) for a in told]
    return head + question[HEADER : end + 4] + b"".join(rows)


def _name_in(question: bytes) -> tuple[str, int]:
    labels, at = [], HEADER
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels), at + 1


def serve(kubeconfig: Path, address: str) -> None:
    """Answer for ever."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    login = Login(
        cluster["server"],
        Path(cluster["certificate-authority"]),
        document["users"][0]["user"]["token"],
        kubeconfig,
    )
    names = Names(Admin(login))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.bind((address, PORT))
        while True:
            question, who = link.recvfrom(2048)
            if len(question) > HEADER + 5:
                link.sendto(answer(question, names), who)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])

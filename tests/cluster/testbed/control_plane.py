"""etcd, kube-apiserver and kube-controller-manager, each started, stopped and killed on its own."""

from __future__ import annotations

import http.client
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.testbed.binaries import Binaries
from tests.cluster.testbed.identity import Login, TokenFile, login
from tests.cluster.testbed.namespace import free_ports
from tests.cluster.testbed.process import Process

HOST = "127.0.0.1"
SERVICES = "10.96.0.0/16"
API_ADDRESS = "10.96.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
LEFT_OUT = ("node-lifecycle-controller", "node-ipam-controller")


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the three listen."""

    etcd: int
    etcd_peer: int
    api: int
    controllers: int


# Inside a namespace of our own the API server has the port that pods expect behind 10.96.0.1.
OWN_NAMESPACE = Ports(etcd=2379, etcd_peer=2380, api=443, controllers=10257)


class ControlPlane:
    """The three processes, their keys and their logs, in one folder."""

    def __init__(self, folder: Path, binaries: Binaries, *, own_namespace: bool) -> None:
        self.folder = folder
        self.ports = OWN_NAMESPACE if own_namespace else Ports(*free_ports(4))
        self.pki = folder / "pki"
        self.server = f"https://{HOST}:{self.ports.api}"
        self.ca_file = self.pki / "apiserver.crt"
        tokens = TokenFile(folder / "tokens.csv")
        self._admin = tokens.add("kai-tests", "system:masters")
        self._node = tokens.add("system:node:real-0", "system:nodes")
        _make_signing_key(self.pki)
        self.etcd = Process("etcd", self._etcd_command(binaries), log=folder / "etcd.log")
        self.api = Process("kube-apiserver", self._api_command(binaries), log=folder / "api.log")
        self.controllers = Process(
            "kube-controller-manager",
            self._controllers_command(binaries),
            log=folder / "controllers.log",
        )

    def start(self) -> None:
        """Start all three; ready when this returns."""
        self.etcd.start()
        self.start_api()
        self.controllers.start()

    def start_api(self) -> None:
        """Start the API server and wait until it is ready."""
        self.api.start()
        self.api.wait_until(self._is_ready, "the API server is ready")

    def restart_etcd(self) -> None:
        """Kill etcd and start it on what it had written."""
        self.etcd.kill()
        self.etcd.start()
        self.api.wait_until(self._is_ready, "the API server has its store back")

    def stop(self) -> None:
        """End all three; their logs stay, the store does not."""
        for process in (self.controllers, self.api, self.etcd):
            process.stop()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def login(self) -> Login:
        """Return the administrator's login."""
        return login(self.server, self.ca_file, self._admin, self.folder / "admin.kubeconfig")

    def node_login(self) -> Login:
        """Return the login of the kubelet of the node `real-0`."""
        return login(self.server, self.ca_file, self._node, self.folder / "node.kubeconfig")

    def _is_ready(self) -> bool:
        try:
            trust = ssl.create_default_context(cafile=str(self.ca_file))
        except OSError:
            return False  # the certificate is not there yet, or half of it
        link = http.client.HTTPSConnection(HOST, self.ports.api, context=trust, timeout=5)
        try:
            link.request("GET", "/readyz", headers={"Authorization": f"Bearer {self._admin}"})
            return link.getresponse().status == 200
        except OSError:
            return False
        finally:
            link.close()

    def _etcd_command(self, binaries: Binaries) -> list[str | Path]:
        clients = f"http://{HOST}:{self.ports.etcd}"
        peers = f"http://{HOST}:{self.ports.etcd_peer}"
        return [
            binaries.etcd,
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--logger=zap",
            "--log-level=warn",
        ]

    def _api_command(self, binaries: Binaries) -> list[str | Path]:
        return [
            binaries.kube_apiserver,
            f"--etcd-servers=http://{HOST}:{self.ports.etcd}",
            f"--cert-dir={self.pki}",
            f"--secure-port={self.ports.api}",
            f"--bind-address={'0.0.0.0' if self.ports == OWN_NAMESPACE else HOST}",  # noqa: S104
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",
            f"--service-account-key-file={self.pki / 'sa.pub'}",
            f"--service-account-signing-key-file={self.pki / 'sa.key'}",
            f"--service-account-issuer={ISSUER}",
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--allow-privileged=true",
            "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--enable-aggregator-routing=true",  # webhooks behind a Service, without kube-proxy
            "--delete-collection-workers=16",
            "--shutdown-delay-duration=0s",
        ]

    def _controllers_command(self, binaries: Binaries) -> list[str | Path]:
        return [
            binaries.kube_controller_manager,
            f"--kubeconfig={self.folder / 'admin.kubeconfig'}",
            f"--service-account-private-key-file={self.pki / 'sa.key'}",
            f"--root-ca-file={self.ca_file}",
            "--leader-elect=false",
            f"--bind-address={HOST}",
            f"--secure-port={self.ports.controllers}",
            f"--cert-dir={self.pki}",
            f"--controllers=*,{','.join(f'-{name}' for name in LEFT_OUT)}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]


def _make_signing_key(folder: Path) -> None:
    """Make the pair with which the API server signs the tokens of service accounts."""
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / "sa.key", folder / "sa.pub"
    for command in (
        ["openssl", "genrsa", "-out", str(private), "2048"],
        ["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    private.chmod(0o600)

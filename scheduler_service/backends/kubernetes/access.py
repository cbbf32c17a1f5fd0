"""How the API is reached and who we are there: a kubeconfig, or the files every pod has."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scheduler_service.errors import ConfigurationError

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """Address, trust and credentials. Certificates are files or their content; a token file is read again on change."""

    server: str
    token: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    ca_data: str | None = None
    client_cert: bytes | Path | None = None
    client_key: bytes | Path | None = None
    insecure: bool = False
    namespace: str = "default"

    def __repr__(self) -> str:
        """Say where, never with what."""
        return f"Access({self.server!r})"

    @classmethod
    def load(cls, kubeconfig: Path | None = None) -> Access:
        """Return the access of a kubeconfig (given, or of KUBECONFIG), else that of the pod we run in."""
        if kubeconfig is None and (named := os.environ.get("KUBECONFIG")):
            kubeconfig = Path(named.split(os.pathsep)[0])
        if kubeconfig is not None:
            return _of_kubeconfig(kubeconfig)
        return _of_pod(IN_POD, os.environ)

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return how TLS is checked; None for plain http."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(
            cafile=None if self.ca_file is None else str(self.ca_file), cadata=self.ca_data
        )
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_cert is not None and self.client_key is not None:
            _load_pair(context, self.client_cert, self.client_key)
        return context


def _load_pair(context: ssl.SSLContext, cert: bytes | Path, key: bytes | Path) -> None:
    """Load a client's certificate; content goes through files of ours alone, for a moment."""
    with tempfile.TemporaryDirectory(prefix="kai-tls-") as folder:
        paths = []
        for name, part in (("cert", cert), ("key", key)):
            path = part if isinstance(part, Path) else Path(folder, name)
            if not isinstance(part, Path):
                path.touch(mode=0o600)
                path.write_bytes(part)
            paths.append(str(path))
        context.load_cert_chain(*paths)


def _of_pod(folder: Path, environ: Mapping[str, str]) -> Access:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token = folder / "token"
    if not host or not token.exists():
        raise ConfigurationError(
            "No Kubernetes cluster is known here.",
            why="This is not a pod, and no kubeconfig was named.",
            hint="Name one with --kubeconfig or KUBECONFIG.",
        )
    place = folder / "namespace"
    address = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{address}:{port or 443}",
        token_file=token,
        ca_file=folder / "ca.crt",
        namespace=place.read_text("utf-8").strip() if place.exists() else "default",
    )


def _of_kubeconfig(path: Path) -> Access:
    content = _read(path)
    named = content.get("current-context")
    context = _entry(content, "contexts", named, path).get("context") or {}
    cluster = _entry(content, "clusters", context.get("cluster"), path).get("cluster") or {}
    user = _entry(content, "users", context.get("user"), path).get("user") or {}
    unknown = {"exec", "auth-provider", "username"} & user.keys()
    if unknown:
        raise ConfigurationError(
            f"{path}: the user's credentials come from {sorted(unknown)[0]!r}, which is not read here.",
            hint="Use a kubeconfig with a token, a tokenFile or a client certificate.",
        )
    ca = _content(cluster, "certificate-authority", path)
    token_file = user.get("tokenFile")
    return Access(
        str(cluster.get("server", "")).rstrip("/"),
        token=user.get("token"),
        token_file=None if token_file is None else path.parent / token_file,
        ca_file=ca if isinstance(ca, Path) else None,
        ca_data=ca.decode("ascii") if isinstance(ca, bytes) else None,
        client_cert=_content(user, "client-certificate", path),
        client_key=_content(user, "client-key", path),
        insecure=bool(cluster.get("insecure-skip-tls-verify", False)),
        namespace=context.get("namespace") or "default",
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(
            f"The kubeconfig {path} can not be read.", why=str(error)
        ) from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} is not a kubeconfig.")
    return content


def _entry(content: Mapping[str, Any], kind: str, name: object, path: Path) -> dict[str, Any]:
    for entry in content.get(kind) or ():
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry
    raise ConfigurationError(
        f"{path} has no {name!r} among its {kind}.", hint="Check its current-context."
    )


def _content(entry: Mapping[str, Any], key: str, path: Path) -> bytes | Path | None:
    """Return what is inline, or the file that is named (relative to the kubeconfig)."""
    inline = entry.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError):
            raise ConfigurationError(f"{path}: {key}-data is not base64.") from None
    named = entry.get(key)
    return None if not named else path.parent / str(named)

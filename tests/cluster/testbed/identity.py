"""Who may speak to the API server: static tokens for the cluster's own parts, kubeconfigs for all."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class Login:
    """How one client reaches the API server: `kubeconfig` is a 0600 file that says the same."""

    server: str
    ca_file: Path
    token: str
    kubeconfig: Path


class TokenFile:
    """The API server's static tokens: for the administrator, the controllers and the nodes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: list[str] = []

    def add(self, user: str, *groups: str) -> str:
        """Return a new token for `user`; read by the API server when it starts."""
        token = secrets.token_hex(24)
        self._rows.append(f'{token},{user},{user},"{",".join(groups)}"')
        write_secret(self.path, "\n".join(self._rows) + "\n")
        return token


def login(server: str, ca_file: Path, token: str, kubeconfig: Path) -> Login:
    """Write the kubeconfig and return the login that it stands for."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": server, "certificate-authority": str(ca_file)},
            }
        ],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    write_secret(kubeconfig, yaml.safe_dump(document))
    return Login(server, ca_file, token, kubeconfig)


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)

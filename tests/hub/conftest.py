"""A spawner of pods without a cluster: what it would create can be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from kubernetes_asyncio.config import kube_config
from traitlets.config import Config

from kai_jupyter.hub.kube import KaiSpawner

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: none, user: {}}]
"""
SHARES = ["cpu", {"gpu": "0.5", "cpu": 8, "memory": "32GiB"}, "2"]
PROFILES = [
    {"name": "torch", "image": "example.local/torch:1", "image_gb": 7.9},
    {"name": "own", "cmd": ["start-own"]},
]
Spawners = Callable[..., Any]


@pytest.fixture
def spawner_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spawners]:
    """Return a maker of spawners whose person chose something."""
    config = tmp_path / "kubeconfig"
    config.write_text(KUBECONFIG)
    # KubeSpawner wants one even where it speaks to nobody; its place is read when the module is imported.
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(config))

    def made(options: dict[str, str] | None = None, **traits: Any) -> Any:
        user = Mock(url="/user/ana/", escaped_name="ana", groups=[])
        user.name = "ana"
        hub = Mock(base_url="/hub/", api_url="http://hub/hub/api", public_host="")
        orm_spawner = Mock(server=None, user_options={})
        orm_spawner.name = ""
        offered = {"kai_shares": SHARES, "kai_profiles": PROFILES, **traits}
        config = Config({"KaiSpawner": offered, "KubeSpawner": {"image": "example.local/lab:1"}})

        async def make() -> Any:
            return KaiSpawner(
                _mock=True, user=user, hub=hub, orm_spawner=orm_spawner, config=config, port=8888
            )

        spawner = loop.run(make())
        spawner.run = loop.run
        spawner.api_token = "a-token"
        spawner.user_options = options or {}
        return spawner

    with asyncio.Runner() as loop:
        yield made

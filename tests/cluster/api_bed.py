"""The API of a running `kai serve --backend kubernetes`, and people with real tokens who ask it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import FAIL_SAFE_S, Process, wait_until

RBAC = "rbac.authorization.k8s.io"
AUDIENCE = "kai"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SHOWN_BY = {
    "edit": {"verb": "delete", "resource": "pods"},
    "kai-jupyter:view": {"verb": "list", "group": "scheduling.run.ai", "resource": "podgroups"},
    "kai-jupyter:queue-admin": {
        "verb": "update",
        "group": "scheduling.run.ai",
        "resource": "queues",
    },
}
"""What somebody with a role may do: the API server takes a moment to know it."""


def address(process: Process) -> str:
    """Return where a scheduler serves, once it says so."""
    process.wait_until(lambda: "health on" in process.log.read_text(), "it listens")
    found = re.search(r"health on (\S+)", process.log.read_text())
    assert found is not None
    return f"http://{found.group(1)}"


def ready(process: Process) -> str:
    """Return where it serves, once it leads."""
    url = address(process)
    process.wait_until(lambda: httpx.get(f"{url}/readyz").status_code == 200, "it leads")
    return url


class Person:
    """Somebody with a service account in a namespace, and a token of it for the API."""

    def __init__(self, cluster: Cluster, url: str, name: str, namespace: str) -> None:
        self.cluster, self.url, self.name, self.namespace = cluster, url, name, namespace
        self.user = f"system:serviceaccount:{namespace}:{name}"
        meta = {"name": name, "namespace": namespace}
        cluster.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        self.token = cluster.access(name, namespace, audience=AUDIENCE).token

    def may(self, role: str, namespace: str = "") -> Person:
        """Bind a cluster role to the person in a namespace (their own unless named)."""
        space = namespace or self.namespace
        self.cluster.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"{self.name}-{role.replace(':', '-')}", "namespace": space},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [self._subject()],
            }
        )
        return self._once_it_holds({**SHOWN_BY[role], "namespace": space})

    def may_everywhere(self, role: str) -> Person:
        """Bind a cluster role to the person in the whole cluster."""
        self.cluster.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{self.namespace}-{self.name}-{role.replace(':', '-')}"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [self._subject()],
            }
        )
        return self._once_it_holds(SHOWN_BY[role])

    def _once_it_holds(self, deed: dict[str, str]) -> Person:
        """Return once the API server lets the person do this: our service believes a refusal for a while."""
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": self.user, "resourceAttributes": deed},
        }
        wait_until(
            lambda: self.cluster.admin.post(REVIEWS, body)["status"]["allowed"],
            f"{self.user} may {deed}",
        )
        return self

    def _subject(self) -> dict[str, str]:
        return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}

    # -- asking ------------------------------------------------------------------------------------
    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Return what the API answers."""
        return ask(self.url, method, path, token=self.token, **more)

    def get(self, path: str, **query: Any) -> Any:
        """Return the content of a good answer."""
        answer = self.ask("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def groups(self) -> dict[str, Any]:
        """Return the groups that the person sees, by name."""
        return {view["name"]: view for view in self.get("pod-groups")["items"]}

    def group(
        self,
        name: str,
        right: Callable[[Any], Any],
        what: str,
        *,
        fail_safe_s: float = FAIL_SAFE_S,
    ) -> Any:
        """Return a group of the person's namespace once it is there and `right` says yes of it."""
        last: Any = None
        end = time.monotonic() + fail_safe_s
        while time.monotonic() < end:
            answer = self.ask("GET", f"pod-groups/{self.namespace}/{name}")
            last = answer.json()
            if answer.status_code == 200 and right(last):
                return last
            time.sleep(0.1)
        raise AssertionError(f"still not: {what}: {json.dumps(last)[:2000]}")

    @contextmanager
    def stream(self, **query: Any) -> Iterator[Iterator[Any]]:
        """Give the messages of the event stream."""
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.url}/api/v1/events"
        with httpx.stream(
            "GET", url, headers=headers, params=query, timeout=FAIL_SAFE_S
        ) as response:
            assert response.status_code == 200
            yield (
                json.loads(line.removeprefix("data: "))
                for line in response.iter_lines()
                if line.startswith("data: ")
            )


def ask(
    url: str, method: str, path: str, *, token: str | None = None, **more: Any
) -> httpx.Response:
    """Return what the API answers to whoever has this token."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.request(
        method, f"{url}/api/v1/{path}", headers=headers, timeout=FAIL_SAFE_S, **more
    )

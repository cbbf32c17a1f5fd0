"""Rules of pods about other pods: required (anti-)affinity, and the preferred kind as a bonus.

Pods that leave by the very try do not count. Pods that really leave still keep others away from
a place now, not from a promise of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from scheduler_service.ledger import states
from scheduler_service.model.pod import Pod, PodAffinity
from scheduler_service.planning.board import Board

Allows = Callable[[int], tuple[bool, bool]]
"""Node row -> whether the pod may be there now, and later."""


def matters(board: Board, pod: int) -> bool:
    """Say whether rules about other pods concern this pod at all."""
    return bool(board.ledger.affinity_pods) and (
        pod in board.ledger.affinity_pods or _has_placed_rules(board)
    )


def _has_placed_rules(board: Board) -> bool:
    node = board.ledger.pods.node
    return any(node[other] >= 0 for other in board.ledger.affinity_pods)


def rules_for(board: Board, pod: int) -> Allows:
    """Return where a pod may be, as far as other pods decide."""
    ledger = board.ledger
    model, shape = ledger.pods.models[pod], ledger.shape_of(pod)
    checks = [_beside(board, pod, term) for term in shape.pod_affinity if term.weight is None]
    for term in shape.pod_anti_affinity:
        if term.weight is None:
            others = _matching(board, model.namespace, term.match_labels, pod)
            checks.append(_apart(board, term.topology_key, others))
    for other, term in _rules_against(board, pod):
        checks.append(_apart(board, term.topology_key, iter([other])))

    def allows(row: int) -> tuple[bool, bool]:
        now = later = True
        for check in checks:
            now_here, later_here = check(row)
            now, later = now and now_here, later and later_here
        return now, later

    return allows


def bonus_for(board: Board, pod: int, rows: list[int]) -> dict[int, int]:
    """Return the preferred (anti-)affinity of a pod to other pods, per node row."""
    ledger = board.ledger
    model, shape = ledger.pods.models[pod], ledger.shape_of(pod)
    bonus = dict.fromkeys(rows, 0)
    for sign, terms in ((1, shape.pod_affinity), (-1, shape.pod_anti_affinity)):
        for term in terms:
            if term.weight is None:
                continue
            others = _matching(board, model.namespace, term.match_labels, pod)
            domains = {_domain(board, ledger.pods.node[other], term) for other in others}
            for row in rows:
                domain = _domain(board, row, term)
                if domain is not None and domain in domains:
                    bonus[row] += sign * term.weight
    return bonus


def has_wishes(board: Board, pod: int) -> bool:
    """Say whether a pod prefers (or avoids) the company of others."""
    shape = board.ledger.shape_of(pod)
    return any(term.weight is not None for term in (*shape.pod_affinity, *shape.pod_anti_affinity))


def _domain(board: Board, row: int, term: PodAffinity) -> str | None:
    return _label(board, row, term.topology_key)


def _label(board: Board, row: int, key: str) -> str | None:
    node = board.ledger.nodes.models[row]
    return None if node is None else node.labels.get(key)


def _is_there(board: Board, pod: int) -> bool:
    """Say whether a pod is on a node, not counting those that leave by this try."""
    state = board.ledger.pods.state[pod]
    return states.HAS_PLACE[state] and not board.is_evicted_now(pod)


def _matching(board: Board, namespace: str, labels: Mapping[str, str], but: int) -> Iterator[int]:
    models = board.ledger.pods.models
    for pod in board.ledger.pods.row_of.values():
        if pod != but and _is_there(board, pod) and _matches(models[pod], namespace, labels):
            yield pod


def _matches(pod: Pod, namespace: str, labels: Mapping[str, str]) -> bool:
    return pod.namespace == namespace and all(
        pod.labels.get(key) == value for key, value in labels.items()
    )


def _apart(board: Board, key: str, others: Iterator[int]) -> Allows:
    pods = board.ledger.pods
    now: set[str | None] = set()
    later: set[str | None] = set()
    for other in others:
        domain = _label(board, pods.node[other], key)
        now.add(domain)
        if states.HOLDS_LATER[pods.state[other]]:
            later.add(domain)

    def allows(row: int) -> tuple[bool, bool]:
        domain = _label(board, row, key)
        return domain is None or domain not in now, domain is None or domain not in later

    return allows


def _beside(board: Board, pod: int, term: PodAffinity) -> Allows:
    pods = board.ledger.pods
    model = pods.models[pod]
    domains = {
        _label(board, pods.node[other], term.topology_key)
        for other in _matching(board, model.namespace, term.match_labels, pod)
        if states.HOLDS_LATER[pods.state[other]]
    }
    is_first = not domains and _matches(model, model.namespace, term.match_labels)

    def allows(row: int) -> tuple[bool, bool]:
        domain = _label(board, row, term.topology_key)
        fits = domain is not None and (is_first or domain in domains)
        return fits, fits

    return allows


def _rules_against(board: Board, pod: int) -> Iterator[tuple[int, PodAffinity]]:
    """Yield the pods that want this one apart, with their rule."""
    ledger = board.ledger
    model = ledger.pods.models[pod]
    for other in ledger.affinity_pods:
        if other == pod or not _is_there(board, other):
            continue
        namespace = ledger.pods.models[other].namespace
        for term in ledger.shape_of(other).pod_anti_affinity:
            if term.weight is None and _matches(model, namespace, term.match_labels):
                yield other, term

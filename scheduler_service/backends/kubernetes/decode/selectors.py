"""Which nodes and pods a rule names. What the model can not say is said by a label that we give to what matches.

The model knows "label is one of these values". Any other rule (NotIn, Exists, Gt, several terms) becomes a *rule*: a
label whose key is the rule in words, and whose value is "true" on every node that it matches.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import (
    Affinity,
    Expression,
    LabelSelector,
    NodeSelector,
    NodeTerm,
    PodAffinity,
    PodSpec,
    PodTerm,
)
from scheduler_service.backends.kubernetes.objects import Toleration as RawToleration
from scheduler_service.model import pod as model

NODE_NAME = "metadata.name"
YES = ("true",)


class Rules:
    """The rules that pods came with, by their words; nodes are labelled with those they match."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeSelector] = {}
        self.pods: dict[str, tuple[str, LabelSelector]] = {}
        self.are_new = False
        """Set when a rule came that nodes or pods have not been labelled with; whoever labels clears it."""

    def node_rule(self, selector: NodeSelector) -> str:
        """Return the label of nodes that a selector matches."""
        words = " or ".join(_term_words(term) for term in selector.node_selector_terms)
        if words not in self.nodes:
            self.nodes[words] = selector
            self.are_new = True
        return words

    def pod_rule(self, namespace: str, selector: LabelSelector) -> str:
        """Return the label of the pods of a namespace that a selector matches."""
        words = ", ".join(
            [f"{k}={v}" for k, v in sorted(selector.match_labels.items())]
            + [_words(item) for item in selector.match_expressions]
        )
        key = f"{namespace}: {words}"
        if key not in self.pods:
            self.pods[key] = (namespace, selector)
            self.are_new = True
        return key

    def labels_of_node(self, labels: Mapping[str, str], name: str) -> dict[str, str]:
        """Return the labels of the rules that a node matches."""
        return {
            words: "true"
            for words, selector in self.nodes.items()
            if any(term_matches(term, labels, name) for term in selector.node_selector_terms)
        }

    def labels_of_pod(self, labels: Mapping[str, str], namespace: str) -> dict[str, str]:
        """Return the labels of the rules that a pod matches."""
        return {
            words: "true"
            for words, (where, selector) in self.pods.items()
            if where == namespace and selects(selector, labels)
        }


def _words(item: Expression) -> str:
    if item.operator in {"Exists", "DoesNotExist"}:
        return f"{item.key} {'is set' if item.operator == 'Exists' else 'is not set'}"
    sign = {"In": "is", "NotIn": "is not", "Gt": ">", "Lt": "<"}.get(item.operator, item.operator)
    return f"{item.key} {sign} {' or '.join(item.values)}"


def _term_words(term: NodeTerm) -> str:
    return " and ".join(_words(item) for item in (*term.match_expressions, *term.match_fields))


def expression_matches(item: Expression, labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil one requirement; one of an unknown kind is fulfilled by nothing."""
    value = labels.get(item.key)
    if item.operator == "In":
        return value in item.values
    if item.operator == "NotIn":
        return value not in item.values
    if item.operator in {"Exists", "DoesNotExist"}:
        return (value is not None) == (item.operator == "Exists")
    if item.operator in {"Gt", "Lt"} and value is not None and len(item.values) == 1:
        return _compares(value, item.values[0], is_greater=item.operator == "Gt")
    return False


def _compares(value: str, bound: str, *, is_greater: bool) -> bool:
    try:
        return int(value) > int(bound) if is_greater else int(value) < int(bound)
    except ValueError:
        return False


def term_matches(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node fulfils all requirements of a term; an empty term is fulfilled by none."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NODE_NAME: name}
    return all(expression_matches(item, labels) for item in term.match_expressions) and all(
        expression_matches(item, fields) for item in term.match_fields
    )


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a selector names a pod (or anything) with these labels."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        expression_matches(item, labels) for item in selector.match_expressions
    )


# -- of a pod ------------------------------------------------------------------------------------------


def node_affinity(spec: PodSpec, rules: Rules) -> tuple[model.NodeAffinity, ...]:
    """Return all rules of a pod about nodes."""
    terms = [model.NodeAffinity(key, (value,)) for key, value in sorted(spec.node_selector.items())]
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return tuple(terms)
    if affinity.required is not None:
        terms += _node_terms(affinity.required, rules, None)
    for liked in affinity.preferred:
        terms += _node_terms(NodeSelector((liked.preference,)), rules, liked.weight)
    return tuple(terms)


def _node_terms(
    selector: NodeSelector, rules: Rules, weight: int | None
) -> list[model.NodeAffinity]:
    (first, *others) = selector.node_selector_terms or (NodeTerm(),)
    is_plain = not others and first.match_expressions and not first.match_fields
    plain = is_plain and all(item.operator == "In" for item in first.match_expressions)
    if plain and (weight is None or len(first.match_expressions) == 1):
        return [
            model.NodeAffinity(item.key, item.values, weight) for item in first.match_expressions
        ]
    return [model.NodeAffinity(rules.node_rule(selector), YES, weight)]


def pod_rules(
    affinity: Affinity | None, namespace: str, rules: Rules
) -> tuple[tuple[model.PodAffinity, ...], tuple[model.PodAffinity, ...]]:
    """Return a pod's rules about pods to be near, and to be far from."""
    if affinity is None:
        return (), ()
    return (
        _pod_terms(affinity.pod_affinity, namespace, rules),
        _pod_terms(affinity.pod_anti_affinity, namespace, rules),
    )


def _pod_terms(
    affinity: PodAffinity | None, namespace: str, rules: Rules
) -> tuple[model.PodAffinity, ...]:
    if affinity is None:
        return ()
    terms = [_pod_term(term, namespace, rules, None) for term in affinity.required]
    terms += [
        _pod_term(liked.pod_affinity_term, namespace, rules, liked.weight)
        for liked in affinity.preferred
    ]
    return tuple(terms)


def _pod_term(term: PodTerm, namespace: str, rules: Rules, weight: int | None) -> model.PodAffinity:
    selector = term.label_selector or LabelSelector()
    labels = selector.match_labels
    if selector.match_expressions or not labels:
        labels = {rules.pod_rule(namespace, selector): "true"}
    return model.PodAffinity(labels, term.topology_key or names.HOSTNAME_LABEL, weight)


def tolerations(found: tuple[RawToleration, ...]) -> tuple[model.Toleration, ...]:
    """Return what a pod bears of taints."""
    return tuple(
        model.Toleration(
            item.key,
            None if item.operator == "Exists" else item.value,
            item.effect or None,
        )
        for item in found
    )

"""What the sub-groups of a PodGroup must look like: KAI's rules, errors in order of name. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scheduler_service.backends.kubernetes.admission.review import (
    Answer,
    Object,
    Request,
    items,
    mapping,
    text,
)

MEMBERS, PARTS = "minMember", "minSubGroup"


def group_object_answer(request: Request) -> Answer:
    """Return whether a pod group's minima and its tree of sub-groups make sense."""
    spec = mapping(request.object, "spec")
    groups = sorted(items(spec, "subGroups"), key=_name)
    structural = list(_structure(groups))
    if structural:
        return Answer((structural[0],))
    refusals = [*_both(spec, "The group")]
    warnings = [*_too_many(spec, "The group", _roots(groups))]
    for group in groups:
        more = _minima(group, groups, request)
        refusals += more.refusals
        warnings += more.warnings
    return Answer(tuple(refusals), tuple(warnings))


def _name(group: Object) -> str:
    return text(group, "name")


def _parent(group: Object) -> str:
    return text(group, "parent")


def _roots(groups: list[Object]) -> int:
    return sum(not _parent(group) for group in groups)


def _structure(groups: list[Object]) -> Iterator[str]:
    names = Counter(_name(group) for group in groups)
    for name, count in sorted(names.items()):
        if count > 1:
            yield f"The sub-group '{name}' stands {count} times. Give each a name of its own."
    for group in groups:
        if _parent(group) and _parent(group) not in names:
            yield (
                f"The sub-group '{_name(group)}' is to be a part of '{_parent(group)}', which does not "
                "exist. Correct its parent."
            )
    above = {_name(group): _parent(group) for group in groups}
    for name in sorted(above):
        if _is_above_itself(name, above):
            yield f"The sub-group '{name}' is a part of itself. Correct its parent."


def _is_above_itself(name: str, above: dict[str, str]) -> bool:
    here = above.get(name, "")
    for _ in above:
        if here == name:
            return True
        here = above.get(here, "")
    return False


def _minima(group: Object, groups: list[Object], request: Request) -> Answer:
    title = f"The sub-group '{_name(group)}'"
    parts = sum(_parent(other) == _name(group) for other in groups)
    refusals = list(_both(group, title))
    if refusals:
        return Answer(tuple(refusals))
    if not parts:
        return Answer(tuple(_of_leaf(group, title)))
    warnings = list(_too_many(group, title, parts))
    if MEMBERS in group:
        sentence = (
            f"{title} has parts, so it has no pods of its own: {MEMBERS} says nothing there. Set "
            f"{PARTS}, or leave both out: then all parts are needed."
        )
        if request.is_new:
            refusals.append(sentence)
        else:
            warnings.append(sentence)
    return Answer(tuple(refusals), tuple(warnings))


def _both(of: Object, title: str) -> Iterator[str]:
    if of.get(MEMBERS) is not None and of.get(PARTS) is not None:
        yield f"{title} has both {MEMBERS} and {PARTS}. Keep the one that is meant."


def _of_leaf(group: Object, title: str) -> Iterator[str]:
    if group.get(PARTS) is not None:
        yield f"{title} has no parts, so {PARTS} can not be met. Set {MEMBERS}."
    elif group.get(MEMBERS) is None:
        yield f"{title} has no {MEMBERS}. Set how many of its pods must run; 0 = each by itself."


def _too_many(of: Object, title: str, parts: int) -> Iterator[str]:
    wanted = of.get(PARTS)
    if isinstance(wanted, int) and wanted > parts:
        yield (
            f"{title} needs {wanted} of its parts but has {parts}: it can not start before more are "
            "added."
        )

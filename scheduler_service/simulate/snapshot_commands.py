"""`kai plan`, `kai explain` and `kai replay` on files: each prints and returns an exit code."""

import json
import sys
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler_service.errors import ConfigurationError
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Bind, Evict, Operation, Pipeline, Plan
from scheduler_service.model.policy import Policy
from scheduler_service.model.reasons import code, sentence
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.model.wording import seconds_words
from scheduler_service.planning.explain import Explanation, explain
from scheduler_service.simulate import capture, overbooked, reader, source
from scheduler_service.simulate.reader import World
from scheduler_service.simulate.run import planned

PolicyName: TypeAlias = Literal["conformance", "default"]
OK: Final = 0
FAILED: Final = 1
UNUSABLE: Final = 2
MAX_DIFFERENCES: Final = 20


def policy_named(name: PolicyName) -> Policy:
    """Return one of the two built-in policies."""
    return Policy.default() if name == "default" else Policy.conformance()


def print_json(value: Any) -> None:
    """Print plain values as JSON."""
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def unusable(sentence: str) -> int:
    """Say what is wrong with the input."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(sentence))
    return UNUSABLE


def doubt(snapshot: Snapshot, prefix: str = "") -> None:
    """Say on stderr what is doubtful of a cluster to plan for."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for line in overbooked.warnings(snapshot):
        console.print(Text(f"{prefix}{line}"))


def _world(file: Path, policy: PolicyName | None) -> World:
    """Return the world of a file; a named policy takes the place of the file's."""
    world = reader.read_world(file, policy_named(policy or "default"))
    doubt(world.snapshot)
    if policy is None:
        return world
    return World(
        world.snapshot,
        policy_named(policy),
        world.stays_releasing,
        world.key_of_pod,
        world.key_of_group,
    )


def plan_snapshot(file: Path, *, policy: PolicyName | None = None, as_json: bool = False) -> int:
    """Print what should happen to a saved snapshot, and why everything else waits."""
    try:
        world = _world(file, policy)
    except ConfigurationError as error:
        return unusable(str(error))
    plan = planned(world.snapshot, world.policy)
    if as_json:
        print_json(capture.plan_content(plan))
    else:
        _print_plan(Console(highlight=False, soft_wrap=True), plan)
    return OK


def _print_plan(console: Console, plan: Plan) -> None:
    happens = Table("action", "for", "pod", "what", title="Happens now", title_justify="left")
    for statement in plan.statements:
        for operation in statement.operations:
            happens.add_row(
                statement.action, statement.group, operation.pod, _operation_words(operation)
            )
    waits = Table("#", "in queue", "group", "why", title="Waits", title_justify="left")
    for waiting in plan.waiting:
        reason = waiting.main_reason
        why = sentence(reason) if reason else "Its turn has not come."
        waits.add_row(str(waiting.overall), str(waiting.position), waiting.group, Text(why))
    for table, is_empty in ((happens, not plan.statements), (waits, not plan.waiting)):
        if not is_empty:
            console.print(table)
    console.print(Text(_counts(len(plan.operations()), len(plan.waiting))))


def _counts(operations: int, waiting: int) -> str:
    done = "1 operation" if operations == 1 else f"{operations} operations"
    waits = "1 group waits" if waiting == 1 else f"{waiting} groups wait"
    return f"{done}, {waits}."


def _operation_words(operation: Operation) -> Text:
    match operation:
        case Bind(node=node):
            return Text(f"starts on {node}")
        case Pipeline(node=node, moved=True):
            return Text(f"moves to {node}")
        case Pipeline(node=node):
            return Text(f"gets the next free place on {node}")
        case Evict(node=node, reason=reason):
            return Text(f"leaves {node}. {sentence(reason)}")


def explain_snapshot(
    group: str, file: Path, *, policy: PolicyName | None = None, as_json: bool = False
) -> int:
    """Print why a group of a saved snapshot waits, who is before it and what would help."""
    try:
        world = _world(file, policy)
    except ConfigurationError as error:
        return unusable(str(error))
    key = _key_of(world, group)
    if key is None:
        known = ", ".join(sorted(world.key_of_group.values())[:6]) or "none"
        return unusable(f"There is no group {group} in {file}. Known are: {known}.")
    ledger = Ledger.from_snapshot(world.snapshot)
    found = explain(ledger, world.policy, key, world.snapshot.now_ms)
    if as_json:
        print_json(_explanation_json(found))
    else:
        _print_explanation(Console(highlight=False, soft_wrap=True), found)
    return OK


def _key_of(world: World, group: str) -> str | None:
    keys = world.key_of_group
    if group in keys.values():
        return group
    if group in keys:
        return keys[group]
    named = [key for key in keys.values() if key.partition("/")[2] == group]
    return named[0] if len(named) == 1 else None


def _explanation_json(found: Explanation) -> dict[str, Any]:
    content = dict(msgspec.to_builtins(found, enc_hook=str))
    waiting = found.waiting
    content["reasons"] = [
        {"action": action, "code": code(reason), "sentence": sentence(reason)}
        for action, reasons in (waiting.by_action if waiting else ())
        for reason in reasons
    ]
    return content


def _print_explanation(console: Console, found: Explanation) -> None:
    waiting = found.waiting
    if waiting is None:
        what = "" if found.happens else ": nothing of it is pending"
        console.print(Text(f"{found.group} does not wait{what}."))
    for operation in found.happens:
        words = f"{operation.pod} {_operation_words(operation)}".rstrip(".")
        console.print(Text(f"{words}."))
    if waiting is None:
        return
    console.print(Text(f"{found.group} waits."))
    console.print(
        Text(f"Position {waiting.position} in its queue, {waiting.overall} over all queues.")
    )
    table = Table("action", "why")
    for action, reasons in waiting.by_action:
        for reason in reasons:
            table.add_row(action.replace("_", " "), Text(sentence(reason)))
    console.print(table)
    if found.ahead:
        console.print(Text(f"Before it: {', '.join(found.ahead[:5])}."))
    _print_offers(console, found)


def _print_offers(console: Console, found: Explanation) -> None:
    has_promise = any(isinstance(operation, Pipeline) for operation in found.happens)
    if not found.offers and not has_promise:
        console.print(Text("No change of it and no ending of others that was tried would help."))
    for offer in found.offers:
        span = offer.forecast.eta_ms
        when = f", in {seconds_words(span[0])} to {seconds_words(span[1])}" if span else ""
        console.print(Text(f"Would help: {offer.what}{when}."))


def replay(file: Path, *, as_json: bool = False) -> int:
    """Plan a capture again; 0 if the decision is the same to the byte, else 1 and what differs."""
    try:
        raw = source.read(file)
        if "plan" not in raw:
            what = "scenario" if "run" in raw else "snapshot"
            return unusable(f"{file} is a {what} without a decision. Use kai plan --snapshot.")
        world = reader.world_of(file, raw, Policy.default())
    except ConfigurationError as error:
        return unusable(str(error))
    found = capture.decision(planned(world.snapshot, world.policy))
    then, now = capture.text_of(raw["plan"]), capture.text_of(found)
    differs = [] if then == now else _differences("plan", json.loads(then), json.loads(now))
    if as_json:
        print_json({"same": not differs, "differences": differs})
    else:
        console = Console(highlight=False, soft_wrap=True)
        for line in differs[:MAX_DIFFERENCES]:
            console.print(Text(line))
        same = "The same decision, to the byte."
        count = "1 difference." if len(differs) == 1 else f"{len(differs)} differences."
        console.print(Text(count if differs else same))
    return FAILED if differs else OK


def _differences(where: str, then: Any, now: Any) -> list[str]:
    """Return a line for each place in which two JSON values differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        return [
            line
            for name in sorted(then.keys() | now.keys())
            for line in _differences(f"{where}.{name}", then.get(name), now.get(name))
        ]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [
            line
            for number, pair in enumerate(zip(then, now, strict=True))
            for line in _differences(f"{where}[{number}]", *pair)
        ]
    if json.dumps(then) == json.dumps(now):
        return []
    return [f"{where}: was {json.dumps(then)}, is {json.dumps(now)}"]

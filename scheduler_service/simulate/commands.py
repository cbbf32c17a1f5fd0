"""The planner's commands: each prints to a console and returns an exit code.

0: as wished. 1: something failed. 2: nothing to do, or the input is wrong (a sentence says how).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scheduler_service.errors import ConfigurationError
from scheduler_service.simulate import conformance as answers
from scheduler_service.simulate.snapshot_commands import (
    FAILED,
    OK,
    PolicyName,
    explain_snapshot,
    plan_snapshot,
    policy_named,
    print_json,
    replay,
    unusable,
)

__all__ = [
    "PolicyName",
    "conformance",
    "explain_snapshot",
    "plan_snapshot",
    "replay",
    "words_of",
]


def conformance(
    places: Sequence[Path],
    *,
    selection: answers.Selection,
    policy: PolicyName = "conformance",
    as_json: bool = False,
) -> int:
    """Run every chosen scenario and table; print failures, a table of suites and the sum."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        files = [file for place in places for file in answers.files_of(place)]
        cases = tuple(answers.cases(files, selection, policy_named(policy)))
    except ConfigurationError as error:
        return unusable(str(error))
    report = answers.Report(cases)
    if not report.cases:
        return unusable("No case was selected. Loosen the filters, or name another folder.")
    told = Console(stderr=True, highlight=False, soft_wrap=True)
    for case in report.cases:
        for line in case.doubts:
            told.print(f"{case.id}: {line}", markup=False)
    if as_json:
        print_json(_report_json(report))
    else:
        _print_report(console, report)
    return FAILED if report.failed else OK


def _print_report(console: Console, report: answers.Report) -> None:
    for case in report.cases:
        for line in case.failures:
            console.print(f"{case.id}: {line}", markup=False)
    table = Table("suite", "passed", "failed")
    for suite, passed, failed in report.suites():
        table.add_row(suite, str(passed), str(failed))
    console.print(table)
    console.print(report.sum, markup=False)


def _report_json(report: answers.Report) -> dict[str, Any]:
    return {
        "passed": report.passed,
        "failed": report.failed,
        "suites": [
            {"suite": suite, "passed": passed, "failed": failed}
            for suite, passed, failed in report.suites()
        ],
        "cases": [
            {
                "id": case.id,
                "suite": case.suite,
                "passed": case.has_passed,
                "failures": list(case.failures),
            }
            for case in report.cases
        ],
    }


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of comma-separated lists."""
    return frozenset(word for text in texts for word in text.split(",") if word)

"""What the kubelet keeps of a pod's end has room for 4,096 bytes."""

import pytest

from scheduler_service.runner.termination import MOST_BYTES, fitted, leave, read
from scheduler_service.wire.pod_group import ResultItem
from scheduler_service.wire.runner import Failure, Report


def report(**parts):
    return Report(incarnation="uid", kind="ended", at=1, **parts)


def test_what_fits_is_kept_whole():
    whole = report(
        exit_code=1,
        failure=Failure(message="E", traceback="t", cell_line=3, source="x = 1\n"),
        results=(ResultItem(name="a", text="int 1", size=5),),
    )
    assert read(fitted(whole).decode()) == whole


@pytest.mark.parametrize("size", [3000, 5000, 100_000])
@pytest.mark.parametrize("letter", ["x", "é", '"', "\n"])
def test_what_is_too_long_keeps_the_error_and_its_line(size, letter):
    long = report(
        failure=Failure(
            message="ValueError: no",
            traceback=letter * size + "ValueError: no",
            cell_line=7,
            source=letter * size,
        )
    )
    body = fitted(long)
    assert len(body) <= MOST_BYTES
    told = read(body.decode())
    assert told is not None
    assert told.failure is not None
    assert told.failure.cell_line == 7
    assert told.failure.message == "ValueError: no"
    assert told.failure.traceback.endswith("ValueError: no")


def test_many_values_are_named_as_far_as_there_is_room():
    items = tuple(ResultItem(name=f"v{n}", text="x" * 90, size=n) for n in range(500))
    told = read(fitted(report(results=items)).decode())
    assert told is not None
    assert told.results == items[: len(told.results)]
    assert told.results


def test_nothing_that_anybody_else_writes_is_believed():
    for message in ("", "{", "[]", "3", '"x"', '{"a": 1}', "null"):
        assert read(message) is None


def test_a_place_that_is_not_there_harms_nobody(tmp_path):
    leave(report(), {"KAI_TERMINATION_FILE": str(tmp_path / "no" / "where")})

"""Every reason has a code, travels as JSON, and is one short sentence with its numbers."""

from __future__ import annotations

import typing

import msgspec
import pytest

from scheduler_service.model import reasons
from scheduler_service.model.plan import Waiting

LONG = "a-queue-or-a-group-with-a-name-that-nobody-would-like-to-type-twice"
KINDS = typing.get_args(reasons.Reason)


def example(kind: type, text: str, number: int) -> reasons.Reason:
    """Return a reason of a kind with one text and one number everywhere."""
    hints = typing.get_type_hints(kind)
    values: dict[str, object] = {}
    for name in kind.__struct_fields__:
        hint = hints[name]
        if typing.get_origin(hint) is typing.Literal:
            values[name] = typing.get_args(hint)[0]
        else:
            sure = next((part for part in typing.get_args(hint) if part is not type(None)), hint)
            values[name] = {int: number, bool: True, str: text}[sure]
    return kind(**values)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_sentence_is_short_and_ends(kind: type) -> None:
    for text, number in (("x", 2), (LONG, 123_456_789)):
        sentence = reasons.sentence(example(kind, text, number))

        assert 0 < len(sentence) <= reasons.MAX_SENTENCE
        assert "  " not in sentence


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_reason_travels_as_json(kind: type) -> None:
    reason = example(kind, "x", 2)

    encoded = msgspec.json.encode(reason)

    assert msgspec.json.decode(encoded, type=reasons.Reason) == reason
    assert msgspec.json.decode(encoded)["code"] == reasons.code(reason)


def test_codes_are_unique() -> None:
    codes = [reasons.code(example(kind, "x", 1)) for kind in KINDS]

    assert len(set(codes)) == len(codes)


def test_sentences_say_the_numbers_that_decided() -> None:
    over = reasons.OverLimit("vision", "gpu", 4000, 3500, 1000)

    assert (
        reasons.sentence(over) == "Queue vision is limited to 4 GPUs: 3.5 GPUs used, 1 GPU wanted."
    )


def test_the_main_reason_is_the_first_of_the_first_action() -> None:
    first, second = reasons.QueueMissing("a"), reasons.NoVictims("preempt")
    waiting = Waiting("d/g", (("allocate", (first,)), ("preempt", (second,))))

    assert waiting.main_reason == first
    assert waiting.reasons == (first, second)
    assert Waiting("d/g", ()).main_reason is None

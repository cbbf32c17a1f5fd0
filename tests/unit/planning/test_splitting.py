"""The value of parts of GPUs: never worth more together than the room they fit into."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.ledger.shape import ShapeBook
from scheduler_service.model.gpu import FractionOfGpu
from scheduler_service.model.pod import Pod, PodRequest
from scheduler_service.planning.requests import GPU, Request
from scheduler_service.planning.splitting import Split, best_split

PIECES = st.integers(1, 500)


def asked(size: int, weight: int) -> Request:
    book = ShapeBook()
    number = book.number_of(Pod("p", "d", "d/g", request=PodRequest(gpu=FractionOfGpu(size))))
    return Request(size, 1, 0, 0, weight, book.shapes[number])


@given(PIECES, st.integers(0, GPU), st.integers(0, GPU))
def test_two_parts_are_worth_no_more_than_both_in_one(piece, one, two):
    split, both = Split(piece), min(GPU, one + two)

    assert split.value(one) + split.value(both - one if one < both else 0) <= split.value(both)
    assert split.value(GPU) == 2 * split.pieces


@given(PIECES)
def test_two_halves_are_worth_a_whole_gpu(piece):
    split = Split(piece)

    assert 2 * split.value(GPU // 2) == split.value(GPU)


@given(PIECES, st.integers(1, GPU), st.data())
def test_waste_is_never_negative_and_no_more_than_a_gpu(piece, room, data):
    part = data.draw(st.integers(1, room))

    assert 0 <= Split(piece).waste(room, part) <= GPU


def test_a_pair_of_halves_wastes_less_than_a_half_and_a_third():
    """The sizes that people ask for in a production cluster."""
    mix = [asked(810, 35), asked(470, 24), asked(320, 11), asked(650, 8), asked(230, 5)]
    split = best_split(mix)

    assert split.piece == 230
    assert split.waste(530, 470) == 0
    assert split.waste(530, 320) == 250
    assert split.waste(350, 320) == 0
    assert split.waste(GPU, 810) == 0


def test_the_piece_is_one_that_is_asked_for_and_half_a_gpu_where_nothing_small_is():
    assert best_split([asked(810, 3)]).piece == 500
    assert best_split([]).piece == 500
    assert best_split([asked(500, 1), asked(300, 1)]).piece in {300, 500}

from __future__ import annotations

from pathlib import Path

from scheduler_service.runner.log_files import (
    MAX_LINE_BYTES,
    STDERR,
    STDOUT,
    LineSplitter,
    LogReader,
    LogWriter,
    next_seq,
    segments_of,
)


def writer(folder: Path, segment_bytes: int = 10_000, segments: int = 3) -> LogWriter:
    return LogWriter(folder, segment_bytes=segment_bytes, segments=segments)


def test_lines_come_back_in_order_with_their_stream(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.add(STDOUT, "one", 5)
    log.add(STDERR, "", 6)
    log.add(STDOUT, " two  with spaces ", 7)
    log.close()
    lines, lost = LogReader(tmp_path).read(10)
    assert lines == [(0, 5, "o", "one"), (1, 6, "e", ""), (2, 7, "o", " two  with spaces ")]
    assert lost == 0


def test_a_reader_goes_on_where_it_was_over_segments(tmp_path: Path) -> None:
    log = writer(tmp_path, segment_bytes=40, segments=100)
    reader = LogReader(tmp_path)
    seen: list[str] = []
    for number in range(30):
        log.add(STDOUT, f"line {number}", 0)
        seen += [line.text for line in reader.read(2)[0]]
    log.close()
    assert seen == [f"line {number}" for number in range(30)]
    assert len(segments_of(tmp_path)) > 5


def test_a_reader_that_is_too_late_knows_how_much_it_missed(tmp_path: Path) -> None:
    log = writer(tmp_path, segment_bytes=40, segments=2)
    for number in range(30):
        log.add(STDOUT, f"line {number}", 0)
    log.close()
    lines, lost = LogReader(tmp_path).read(100)
    assert lost == lines[0].seq > 0
    assert lines[-1].seq == 29


def test_the_next_writer_goes_on_counting(tmp_path: Path) -> None:
    for _ in range(2):
        log = writer(tmp_path)
        log.add(STDOUT, "a", 0)
        log.add(STDOUT, "b", 0)
        log.close()
    assert next_seq(tmp_path) == 4
    assert [line.seq for line in LogReader(tmp_path).read(10)[0]] == [0, 1, 2, 3]


def test_a_half_written_line_is_left_for_later(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.add(STDOUT, "a", 0)
    log.close()
    _, path = segments_of(tmp_path)[0]
    whole = path.read_bytes()
    path.write_bytes(whole + b"1 0 o hal")
    reader = LogReader(tmp_path)
    assert [line.text for line in reader.read(10)[0]] == ["a"]
    path.write_bytes(whole + b"1 0 o half\n")
    assert [line.text for line in reader.read(10)[0]] == ["half"]


def test_a_read_is_bounded_in_bytes(tmp_path: Path) -> None:
    log = writer(tmp_path)
    for _ in range(10):
        log.add(STDOUT, "x" * 100, 0)
    log.close()
    assert len(LogReader(tmp_path).read(10, max_bytes=250)[0]) == 3


def test_pieces_become_lines_as_a_terminal_shows_them() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == ["one"]
    assert splitter.feed(b"o\r\n10%\r20%\r\n") == ["two", "20%"]
    assert splitter.feed(b"30%\r40%\r") == []
    assert splitter.flush() == ["40%"]
    assert not splitter.has_pending


def test_bytes_that_are_no_text_and_lines_without_end_are_bounded() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"\xff\xfe\n") == ["\ufffd\ufffd"]
    pieces = splitter.feed(b"x" * (2 * MAX_LINE_BYTES + 5))
    assert [len(piece) for piece in pieces] == [MAX_LINE_BYTES, MAX_LINE_BYTES]
    assert splitter.flush() == ["xxxxx"]


def test_a_flood_is_passed_over_up_to_its_last_lines(tmp_path: Path) -> None:
    log = writer(tmp_path, segment_bytes=400, segments=100)
    for number in range(100):
        log.add(STDOUT, f"line {number}", 0)
    log.close()
    reader = LogReader(tmp_path)
    reader.read(5)
    assert reader.skip_to_last(10) == 85
    lines, lost = reader.read(100)
    assert [line.text for line in lines] == [f"line {number}" for number in range(90, 100)]
    assert lost == 0
    assert reader.skip_to_last(10) == 0

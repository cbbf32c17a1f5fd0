"""A run as a picture: GPUs held as an area, waiting groups as a line, evictions by queue as bars.

Of a placement run: the part of the GPUs that is held, by the part that was asked for.

SVG is written here; PNG is drawn by Matplotlib where that is installed.
"""

from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from scheduler_service.errors import ConfigurationError
from scheduler_service.simulate.packing import Packing
from scheduler_service.simulate.result import Point, Result

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 240, 56, 28, 8
BAR, GAP = 14, 6
BLUE, ORANGE, GREY = "#4c8dae", "#c2571a", "#777"


def write(file: Path, result: Result | Packing) -> None:
    """Write the chart; the suffix of the name says as what."""
    if file.suffix == ".svg":
        text = packing_svg(result) if isinstance(result, Packing) else svg(result)
        file.write_text(text, encoding="utf-8")
    elif file.suffix == ".png":
        figure = _packing_figure(result) if isinstance(result, Packing) else _figure(result)
        figure.savefig(file, bbox_inches="tight")
    else:
        raise ConfigurationError(
            f"A chart is SVG or PNG; {file} ends otherwise.", hint="Name it like chart.svg."
        )


def svg(result: Result) -> str:
    """Return the picture as SVG."""
    points = result.series() or [Point(0, 0, 0)]
    begin, end = points[0].at_ms, max(points[-1].at_ms, points[0].at_ms + 1)
    most = max(1, *(point.waiting for point in points))
    whole = result.total_milli_gpu or 1
    held = _steps(points, (begin, end), [point.held_milli_gpu / whole for point in points])
    waiting = _steps(points, (begin, end), [point.waiting / most for point in points])
    base = HEIGHT - BOTTOM
    evicted = [(name, queue.evictions) for name, queue in sorted(result.queues.items())]
    bars = _bars([(name, number) for name, number in evicted if number])
    height = HEIGHT + (len(bars) + 1) * (BAR + GAP) if bars else HEIGHT
    return "\n".join(
        [
            _opening(height),
            "<title>GPUs held and groups waiting</title>",
            f'<polygon points="{LEFT},{base} {held} {WIDTH},{base}" fill="{BLUE}" fill-opacity="0.5"/>',
            f'<polyline points="{waiting}" fill="none" stroke="{ORANGE}" stroke-width="1.5"/>',
            f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH}" y2="{base}" stroke="{GREY}"/>',
            f'<text x="4" y="16" fill="{BLUE}">{whole / 1000:g} GPUs</text>',
            f'<text x="{WIDTH + 4}" y="16" fill="{ORANGE}">{most} wait</text>',
            f'<text x="{LEFT}" y="{HEIGHT - 8}">0</text>',
            f'<text x="{WIDTH}" y="{HEIGHT - 8}" text-anchor="end">{time_text(end - begin)}</text>',
            *bars,
            "</svg>",
            "",
        ]
    )


def packing_svg(packed: Packing) -> str:
    """Return the picture of a placement run as SVG: what is held against what was asked for."""
    points = packed.points() or [(0.0, 0.0)]
    most, base = max(100.0, points[-1][0]), HEIGHT - BOTTOM
    height = base - TOP

    def at(asked: float, held: float) -> str:
        return f"{LEFT + (WIDTH - LEFT) * asked / most:.1f},{TOP + height * (1 - held / 100):.1f}"

    held = " ".join(at(asked, part) for asked, part in points)
    whole, end = at(100, 100), at(most, 100)
    left = f"{packed.unallocated_percent:.2f} % not held when all were asked for"
    return "\n".join(
        [
            _opening(HEIGHT),
            "<title>GPUs held by GPUs asked for</title>",
            f'<polyline points="{at(0, 0)} {whole} {end}" fill="none" stroke="{GREY}"/>',
            f'<polyline points="{whole} {at(100, 0)}" stroke="{GREY}" stroke-dasharray="3"/>',
            f'<polyline points="{at(0, 0)} {held}" fill="none" stroke="{BLUE}" stroke-width="2"/>',
            f'<text x="4" y="16" fill="{BLUE}">100 %</text>',
            f'<text x="{LEFT}" y="{HEIGHT - 8}">0</text>',
            f'<text x="{WIDTH}" y="{HEIGHT - 8}" text-anchor="end">{most:.0f} % asked for</text>',
            f'<text x="{LEFT + 12}" y="{base - 8}">{left}</text>',
            "</svg>",
            "",
        ]
    )


def _opening(height: int) -> str:
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {WIDTH + 64} {height}",
        "role": "img",
        "font-family": "sans-serif",
        "font-size": "11",
    }
    return "<svg " + " ".join(f'{name}="{value}"' for name, value in attributes.items()) + ">"


def _steps(points: Sequence[Point], span: tuple[int, int], parts: Sequence[float]) -> str:
    """Return the corners of a step line for values between 0 and 1."""
    begin, end = span
    height = HEIGHT - BOTTOM - TOP
    corners: list[str] = []
    last = 0.0
    for point, part in zip(points, parts, strict=True):
        x = LEFT + (WIDTH - LEFT) * (point.at_ms - begin) / (end - begin)
        corners += [f"{x:.1f},{TOP + height * (1 - level):.1f}" for level in (last, min(part, 1.0))]
        last = min(part, 1.0)
    return " ".join([*corners, f"{WIDTH},{TOP + height * (1 - last):.1f}"])


def _bars(evicted: Sequence[tuple[str, int]]) -> list[str]:
    """Return a bar and a line of text for each queue that lost pods to others."""
    most = max((number for _, number in evicted), default=1)
    lines = []
    for place, (name, number) in enumerate(evicted):
        y = HEIGHT + place * (BAR + GAP)
        width = max(1.0, 300 * number / most)
        text = escape(f"{number} evictions in {name}")
        lines.append(
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{ORANGE}"'
            f' fill-opacity="0.6"/><text x="{LEFT + width + 6:.1f}" y="{y + 11}">{text}</text>'
        )
    return lines


def time_text(milliseconds: int) -> str:
    """Return a length of time in the unit that reads best."""
    seconds = milliseconds / 1000
    for size, unit in ((2 * 86_400, "d"), (2 * 3600, "h"), (2 * 60, "min")):
        if seconds >= size:
            return f"{seconds / (size / 2):.1f} {unit}"
    return f"{seconds:g} s"


def _drawing() -> Any:
    try:
        return import_module("matplotlib.figure").Figure(figsize=(8, 3))
    except ImportError:
        raise ConfigurationError(
            "A PNG chart needs Matplotlib, which is not installed.",
            hint="Name the chart like chart.svg, or pip install matplotlib.",
        ) from None


def _packing_figure(packed: Packing) -> Any:
    figure, points = _drawing(), packed.points()
    held = figure.add_subplot()
    held.plot([asked for asked, _ in points], [part for _, part in points], color=BLUE)
    held.plot([0, 100, max([100.0, *(asked for asked, _ in points)])], [0, 100, 100], color=GREY)
    held.set_xlabel("% of the GPUs asked for")
    held.set_ylabel("% held")
    return figure


def _figure(result: Result) -> Any:
    figure, points = _drawing(), result.series()
    hours = [point.at_ms / 3_600_000 for point in points]
    held = figure.add_subplot()
    held.fill_between(
        hours, [p.held_milli_gpu / 1000 for p in points], step="post", color=BLUE, alpha=0.5
    )
    held.set_xlabel("hours")
    held.set_ylabel("GPUs held")
    waiting = held.twinx()
    waiting.step(hours, [p.waiting for p in points], where="post", color=ORANGE)
    waiting.set_ylabel("groups waiting")
    return figure

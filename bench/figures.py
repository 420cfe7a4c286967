# SPDX-License-Identifier: GPL-2.0
"""Figures as SVG with colours for a light screen, a dark screen and paper.

matplotlib draws with placeholder colours, which become CSS variables in the SVG. A standalone SVG
defines the variables. In a page the page defines them.
"""

import io
import re
from collections.abc import Iterable

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

matplotlib.use("svg")

# These colours are distinct for colour-blind readers. Markers and hatches differ on paper.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b0508a", "#8c6d00", "#2f8fc4", "#6b6b6b")
DARK = ("#58a6ff", "#ff9e4a", "#3fb98f", "#e89ac7", "#d6b94a", "#9ad1ff", "#a8a8a8")
MARKERS = "osD^vPX"
TWIN = " (C)"
"""Suffix of the names of twins. A twin has the colour of its Rust series, hatched or dashed."""

FOREGROUND = "#010101"
GRID = "#020202"
SERIES = tuple(f"#1000{index:02x}" for index in range(len(LIGHT)))
VARIABLES = {FOREGROUND: "--fg", GRID: "--grid"} | {
    placeholder: f"--c{index}" for index, placeholder in enumerate(SERIES)
}


def variables(dark: bool) -> str:
    """Returns the values of the CSS variables."""
    colours = ("#e6edf3", "#444c56", *DARK) if dark else ("#24292f", "#d0d7de", *LIGHT)
    names = VARIABLES.values()
    return "".join(f"{name}:{colour};" for name, colour in zip(names, colours, strict=True))


OWN_STYLE = (
    f"<style>svg{{{variables(False)}}}"
    f"@media (prefers-color-scheme:dark){{svg{{{variables(True)}}}}}</style>"
)


def figure(width: float = 7.2, height: float = 3.4, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """Returns a figure with panels side by side, drawn with the placeholder colours."""
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "kscale",
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": FOREGROUND,
        "axes.edgecolor": FOREGROUND,
        "axes.labelcolor": FOREGROUND,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9,
        "xtick.color": FOREGROUND,
        "ytick.color": FOREGROUND,
        "grid.color": GRID,
        "hatch.color": FOREGROUND,
        "hatch.linewidth": 0.4,
        "legend.frameon": False,
    }
    matplotlib.rcParams.update(settings)
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots(1, panels, squeeze=False)[0]
    return drawn, list(axes)


def legend(drawn: Figure, per_line: int = 6) -> None:
    """Draws the legend of all panels above them."""
    found = {}
    for axes in drawn.axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    if not found:
        return
    labels, handles = list(found), list(found.values())
    rows = -(-len(labels) // per_line)
    height = 0.1 + 0.2 * rows
    top = 1 - height / drawn.get_figheight()
    drawn.get_layout_engine().set(rect=(0, 0, 1, top))
    in_line = -(-len(labels) // rows)
    drawn.legend(handles, labels, loc="upper center", ncol=in_line, borderaxespad=0.1)


def svg(drawn: Figure, name: str, label: str) -> str:
    """Returns the SVG element. `name` makes its ids unique in a page."""
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for placeholder, variable in VARIABLES.items():
        text = text.replace(placeholder, f"var({variable})")
    # References are `#id` or `url(#id)`.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def standalone(element: str) -> str:
    """Returns the content of an SVG file."""
    end = element.index(">") + 1
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return f"{head}{element[:end]}{OWN_STYLE}{element[end:]}"


def places_of(names: Iterable[str]) -> dict[str, int]:
    """Returns the index of the colour of each name. A twin has the colour of its Rust series."""
    bases = list(dict.fromkeys(name.removesuffix(TWIN) for name in names))
    return {base: index % len(SERIES) for index, base in enumerate(bases)}


def grouped_bars(
    axes: Axes, groups: list[str], series: dict[str, list[float | None]], unit: str
) -> None:
    """Draws a group of bars for each row of a table, one bar for each column."""
    width = 0.8 / len(series)
    colours = places_of(series)
    for index, (name, values) in enumerate(series.items()):
        places = [group + (index - (len(series) - 1) / 2) * width for group in range(len(groups))]
        axes.bar(
            places, [value or 0 for value in values], width, label=name, linewidth=0,
            color=SERIES[colours[name.removesuffix(TWIN)]],
            hatch="////" if name.endswith(TWIN) else "",
        )  # fmt: skip
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(unit)
    axes.grid(axis="x", visible=False)


def line_style(name: str, names: Iterable[str]) -> dict[str, object]:
    """Returns the style of the line of a series."""
    place = places_of(names)[name.removesuffix(TWIN)]
    return {
        "label": name,
        "color": SERIES[place],
        "linestyle": "--" if name.endswith(TWIN) else "-",
        "linewidth": 1.4,
        "marker": MARKERS[place],
        "markersize": 4,
    }


def lines(axes: Axes, xs: list[float], series: dict[str, list[float | None]]) -> None:
    """Draws a line for each column."""
    for name, values in series.items():
        known = [(x, y) for x, y in zip(xs, values, strict=True) if y is not None]
        if known:
            axes.plot(*zip(*known, strict=True), **line_style(name, series))

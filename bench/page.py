# SPDX-License-Identifier: GPL-2.0
"""The report as one self-contained HTML file, for a light or dark screen and for paper."""

from html import escape

import claims
import figures
import plots
from benchmarks import BENCHMARKS
from lanes import LANES
from report import Report
from results import number

STYLE = f"""
:root{{color-scheme:light dark;{figures.variables(False)}--bg:#fff;--soft:#f6f8fa;}}
@media (prefers-color-scheme:dark){{:root{{{figures.variables(True)}--bg:#0d1117;--soft:#161b22;}}}}
@media print{{:root{{color-scheme:light;{figures.variables(False)}--bg:#fff;--soft:#f6f8fa;}}
 h2{{break-after:avoid}} figure,tr{{break-inside:avoid}} figure svg{{max-height:22cm}}
 details{{display:none}}}}
body{{margin:2rem auto;max-width:62rem;padding:0 1rem;background:var(--bg);color:var(--fg);
 font:15px/1.5 system-ui,sans-serif}}
h1,h2{{line-height:1.2}} h2{{margin-top:2.5rem;border-bottom:1px solid var(--grid)}}
table{{border-collapse:collapse;font-size:13px;margin:1rem 0;display:block;overflow-x:auto}}
th,td{{padding:.25rem .6rem;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top}}
td.n{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
thead th{{background:var(--soft)}}
figure{{margin:1.5rem 0}} figure svg{{max-width:100%;height:auto}}
figcaption{{font-size:13px}} .lane{{font-size:12px;border:1px solid var(--grid);border-radius:4px;
 padding:0 .35em;white-space:nowrap}}
details{{margin:1rem 0}} summary{{cursor:pointer}} small{{opacity:.8}}
"""


def tag(lane: str) -> str:
    """Returns the label of a lane as HTML."""
    return f'<span class="lane">{escape(lane)}</span>' if lane else ""


def claims_table(report: Report) -> str:
    """Returns the table of the claims and verdicts."""
    lines = ["<table><thead><tr>"]
    lines += [f"<th>{escape(word)}</th>" for word in claims.HEAD]
    lines.append("</tr></thead><tbody>")
    for row in claims.judged(report):
        name, says, lane, measured, ratio, verdict = row.words()
        cells = f"<td>{name}</td><td>{escape(says)}</td><td>{tag(lane)}</td>"
        cells += f'<td>{escape(measured)}</td><td class="n">{ratio}</td><td>{escape(verdict)}</td>'
        lines.append(f"<tr>{cells}</tr>")
    lines.append("</tbody></table>")
    return "".join(lines)


def lanes_table(report: Report) -> str:
    """Returns the table of the lanes that the report has numbers from."""
    names = [lane for lane in LANES if any(lane == found for _, found in report.parts)]
    rows = "".join(
        f"<tr><td>{tag(lane)}</td><td>{escape(LANES[lane].claim)}</td></tr>" for lane in names
    )
    return (
        "<table><thead><tr><th>lane</th><th>meaning of its numbers</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def with_what(report: Report) -> str:
    """Returns the list of dates and identities, each with its benchmarks and lanes."""
    lines: dict[str, list[str]] = {}
    for (name, lane), part in report.parts.items():
        words = ", ".join(f"{name} {value}" for name, value in part["identity"].items())
        when = f"{part['date']}{', a quick run' if part['quick'] else ''}"
        lines.setdefault(f"{when}: {words or 'on the host'}", []).append(f"{name} on {lane}")
    items = (f"<li>{escape(what)} <small>({escape(', '.join(which))})</small></li>"
             for what, which in lines.items())
    return f"<ul>{''.join(items)}</ul>"


def numbers_table(table: dict, exact: bool) -> str:
    """Returns all cells of a table, with the spread of samples that scatter."""
    head = "".join(f"<th>{escape(plots.shown(name))}</th>" for name in table["columns"])
    lines = [f"<h4>{escape(table['title'])} ({escape(table['unit'])})</h4>"]
    lines.append(f"<table><thead><tr><th>{escape(table['row'])}</th>{head}</tr></thead><tbody>")
    for row, cells in table["cells"].items():
        texts = []
        for name in table["columns"]:
            value, least, most, _ = cells.get(name) or (None, 0, 0, 0)
            text = "" if value is None else number(value)
            if value is not None and not exact and least != most:
                text += f" <small>({number(least)}..{number(most)})</small>"
            texts.append(f'<td class="n">{text}</td>')
        lines.append(f"<tr><td>{escape(row)}</td>{''.join(texts)}</tr>")
    lines.append("</tbody></table>")
    return "".join(lines)


def section(report: Report, name: str, made: list[plots.Plot]) -> str:
    """Returns the plots and the numbers of one benchmark."""
    benchmark = BENCHMARKS[name]
    lines = [f'<section id="b-{name}"><h2>{escape(name)}: {escape(benchmark.title)}</h2>']
    for one in made:
        caption = f"{escape(one.caption)} {tag(one.lane)}"
        lines.append(f"<figure>{one.svg}<figcaption>{caption}</figcaption></figure>")
    for lane in LANES:
        part = report.parts.get((name, lane))
        if part:
            tables = part["tables"].values()
            body = "".join(numbers_table(table, LANES[lane].exact) for table in tables)
            lines.append(f"<details><summary>Numbers {tag(lane)}</summary>{body}</details>")
    lines.append("</section>")
    return "".join(lines)


def html(report: Report) -> str:
    """Returns the content of the HTML file."""
    made = plots.all_plots(report)
    sections = [
        section(report, name, [one for one in made if one.benchmark == name])
        for name in BENCHMARKS
        if any(name == found for found, _ in report.parts)
    ]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>kscale benchmarks</title><style>{STYLE}</style></head><body>
<h1>kscale benchmarks</h1>
<p>A lane is the kind of machine that measures. Numbers of instructions are exact. A time is valid for
the machine that measured it, and meaningless on an emulated machine.</p>
{lanes_table(report)}
<h2>Claims of the mails</h2>
{claims_table(report)}
{"".join(sections)}
<h2>Measured with</h2>
{with_what(report)}
</body></html>
"""

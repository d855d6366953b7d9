"""Tables and the plot that the benches write."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServeFigure:
    """One figure of kcli's beside another's, mostly Kafka's.

    Goals: least_ratio and most_ratio of the other's value, least and most of one's own.
    """

    name: str
    kcli: float
    kafka: float | None
    unit: str
    least_ratio: float | None = None
    most_ratio: float | None = None
    most: float | None = None
    least: float | None = None

    @property
    def ratio(self) -> float | None:
        """kcli's value over Kafka's."""
        return self.kcli / self.kafka if self.kafka else None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without a goal, or without the other's value."""
        if self.most is not None:
            return self.kcli <= self.most
        if self.least is not None:
            return self.kcli >= self.least
        if self.ratio is None:
            return None
        if self.least_ratio is not None:
            return self.ratio >= self.least_ratio
        return None if self.most_ratio is None else self.ratio <= self.most_ratio

    def cells(self) -> list[str]:
        """The columns of the table."""
        goal = ""
        if self.most is not None:
            goal = f"<= {self.most:g} {self.unit}"
        elif self.least is not None:
            goal = f">= {self.least:,.0f} {self.unit}"
        elif self.least_ratio is not None:
            goal = f">= {self.least_ratio:g}x"
        elif self.most_ratio is not None:
            goal = f"<= {self.most_ratio:g}x"
        return [
            self.name,
            _number(self.kcli, self.unit),
            "" if self.kafka is None else _number(self.kafka, self.unit),
            "" if self.ratio is None else f"{self.ratio:.2f}x",
            goal,
            {True: "yes", False: "MISSED", None: ""}[self.reached],
        ]


def _number(value: float, unit: str) -> str:
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}"


def serve_table(figures: Sequence[ServeFigure], other: str = "Kafka") -> str:
    """The figures of kcli and another as a table."""
    return table([["figure", "kcli", other, "ratio", "goal", "reached"], *(figure.cells() for figure in figures)])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned source; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def machine() -> str:
    """What the figures were taken on."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return f"{os.cpu_count()} cores ({model}), {platform.system()}, Python {platform.python_version()}"


def plot(path: Path, offered: Sequence[int], ours: Mapping[str, float], theirs: Mapping[str, float]) -> None:
    """Throughput and latency over the offered load, both brokers, as SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    throughput, latency = figure.subplots(1, 2)
    for name, found, style in (("kcli", ours, "o-"), ("Kafka 4.3", theirs, "s--")):
        thousands = [rate / 1000 for rate in offered]
        throughput.plot(thousands, [found[f"offered_{rate}_per_s"] / 1000 for rate in offered], style, label=name)
        for percentile, key in (("99", "p99"), ("99.9", "p999")):
            taken = [found[f"offered_{rate}_{key}_ms"] for rate in offered]
            latency.plot(thousands, taken, style, alpha=1.0 if key == "p99" else 0.5, label=f"{name}, {percentile} %")
    throughput.set_ylabel("thousand records/s taken")
    latency.set_ylabel("99th and 99.9th percentile, ms")
    latency.set_yscale("log")
    for axes in (throughput, latency):
        axes.set_xlabel("thousand records/s offered (100 B, acks=all)")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, metadata={"Date": None})

"""The options of an export: the records, the columns, the decoding of keys and values, and the form of the table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcli.errors import UsageError
from kcli.export.columns import COLUMNS
from kcli.export.decoding import DecoderSpec
from kcli.export.options import SourceOptions
from kcli.export.table_writer import TableFormat

RAW = DecoderSpec(format="raw")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What to export, in which format, and to which directory.

    source.columns: the columns of the table. sort: column names to sort by, `-` before a name for descending order.
    state: the STATE file of incremental exports, None for an export of one run.
    """

    source: SourceOptions
    out: Path
    form: TableFormat = field(default_factory=TableFormat)
    key: DecoderSpec = RAW
    value: DecoderSpec = RAW
    sort: tuple[str, ...] = ()
    latest_by_key: bool = False
    state: Path | None = None

    def check(self) -> None:
        """Raise UsageError for options that contradict each other or name unknown columns."""
        self.form.check()
        for name in self.sort:
            if name.removeprefix("-") not in COLUMNS or name.removeprefix("-") == "headers":
                raise UsageError(f"--sort {name!r} is no column to sort by")
        if self.latest_by_key and self.state is not None:
            raise UsageError("--latest-by-key makes the whole table, --incremental adds to one: give one of them")
        if self.state is not None and self.source.start.time_ms is not None:
            raise UsageError("--incremental begins where the run before ended: give no --from-time")
        for name, spec in (("key", self.key), ("value", self.value)):
            if spec.format != "raw" and name not in self.source.columns:
                raise UsageError(f"--{name}-format decodes the {name}s, which --columns leaves out")
        if set(self.source.columns) <= set(self.form.layout):
            raise UsageError("--partition-by leaves no column for the files")

    @property
    def manifest_options(self) -> dict[str, Any]:
        """The options that the manifest records, with which --check reads the sources again. Except for `paths`
        and `tier`, an increment must have the same options as the ones before it."""
        return {
            "paths": [*self.source.paths],
            "tier": self.source.tier,
            "columns": [*self.source.columns],
            "isolation": str(self.source.isolation),
            "on_corruption": str(self.source.on_corruption),
            "include_control": self.source.include_control,
            "key": _spec_json(self.key),
            "value": _spec_json(self.value),
            "layout": [*self.form.layout],
            "sort": [*self.sort],
            "latest_by_key": self.latest_by_key,
        }


def _spec_json(spec: DecoderSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in DecoderSpec.__dataclass_fields__}

"""Check an export (--check): its files are those of the manifest, and its rows equal the records of the sources.

    files     each file of the manifest exists, with its size and CRC-32C, and no other *.parquet file is in the table
    sources   the segments still have the bytes that were read, with the same CRC-32C
    records   the sources are read and decoded again; every row equals its record, and none is missing or extra

Rows are matched with records by topic, partition and offset. Of a table without these columns only files, sources and
the number of rows are checked. The check runs in this process, one split at a time, without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kcli.errors import KcliError
from kcli.export.commit import is_interrupted
from kcli.export.decoding import Decoder, DecoderSpec, Survey, make_decoder, survey
from kcli.export.files import is_remote, local
from kcli.export.manifest import DataFile, Manifest, read_manifest
from kcli.export.options import EARLIEST, LATEST, Bound, Isolation, OnCorruption, SourceOptions
from kcli.export.outcome import dead_letter_directory
from kcli.export.reading import read
from kcli.export.shape import DEAD_COLUMNS, Shape
from kcli.export.splits import Split, plan
from kcli.export.steps import JobProgress
from kcli.export.table_writer import file_sum
from kcli.export.worker import sum_bytes
from kcli.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Finding:
    """A file, directory or source (`path`) that differs from the export, and how."""

    path: str
    reason: str


@dataclass(slots=True)
class Proof:
    """The result of a check: the number of checked files, their records and bytes, and the findings."""

    files: int = 0
    records: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    def note(self, path: str | Path, reason: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(str(path), reason))


def check_export(directory: Path, watch: Callable[[JobProgress], None] = lambda _: None) -> Proof:
    """Check a whole export. watch: called with the progress after each split.

    Raises UnreadableInput for a directory without an export.
    """
    manifest = read_manifest(directory)
    directory = directory.resolve()
    proof = Proof()
    if is_interrupted(directory):
        proof.note(directory, "a run was interrupted while it put files in place; the next one finishes that")
    dead = dead_letter_directory(directory)
    sound = _check_files(directory, manifest.files, proof) & _check_files(dead, manifest.dead_letters, proof)
    _check_sources(manifest, proof)
    if sound:
        try:
            _Records(directory, manifest, proof, watch).check()
        except KcliError as error:
            proof.note(directory, f"the sources cannot be read again: {error}")
    return proof


def _check_files(directory: Path, files: Sequence[DataFile], proof: Proof) -> bool:
    """Compare the files of a table with the manifest, and add the differences to `proof`. Return True if there are no
    differences."""
    before = len(proof.findings)
    for each in files:
        path = directory / each.path
        try:
            size, checksum = file_sum(path)
        except OSError as error:
            proof.note(path, error.strerror or str(error))
            continue
        if size != each.bytes:
            proof.note(path, f"{size:,} bytes; {each.bytes:,} were written")
        elif checksum != each.crc32c:
            proof.note(path, f"the bytes give CRC-32C {checksum:#010x}; {each.crc32c:#010x} were written")
        proof.files += 1
        proof.records += each.records
        proof.bytes += size
    known = {each.path for each in files}
    if directory.is_dir():
        for path in sorted(directory.rglob("*.parquet")):
            if path.relative_to(directory).as_posix() not in known:
                proof.note(path, "no file of the export: the manifest does not name it")
    return len(proof.findings) == before


def _check_sources(manifest: Manifest, proof: Proof) -> None:
    for each in manifest.sources:
        if each.crc32c is None or is_remote(each.path):
            continue
        try:
            size = local(each.path).stat().st_size
            if size < each.stop:
                proof.note(each.path, f"{size:,} bytes; {each.stop:,} were there")
            elif sum_bytes(each.path, each.start, each.stop) != each.crc32c:
                proof.note(each.path, f"bytes {each.start:,} to {each.stop:,} are not those that were exported")
        except OSError as error:
            proof.note(each.path, f"a source that cannot be read: {error.strerror}")
        except KcliError as error:
            proof.note(each.path, f"a source that cannot be read: {error}")


class _Records:
    """Compares the rows of the table, and those of the dead-letter table, with the records of the sources."""

    def __init__(self, directory: Path, manifest: Manifest, proof: Proof, watch: Callable[[JobProgress], None]) -> None:
        self._directory = directory
        self._manifest = manifest
        self._proof = proof
        self._watch = watch
        options = manifest.options
        self._columns = tuple(options["columns"])
        self._specs = DecoderSpec(**options["key"]), DecoderSpec(**options["value"])
        self._include_control = bool(options["include_control"])
        self._on_corruption = OnCorruption(options["on_corruption"])
        self._latest = bool(options["latest_by_key"])
        self._by_rows = {"topic", "partition", "offset"} <= {*self._columns, *options["layout"]}

    def check(self) -> None:
        splits = self._splits()
        shape = Shape(self._columns, *self._decoders(splits))
        done = 0
        total = sum(split.size for split in splits)
        rows = dead = 0
        current, latest = None, None
        for number, split in enumerate(splits):
            if self._latest and (split.topic, split.partition) != current:
                current = split.topic, split.partition
                latest = self._latest_offsets([each for each in splits if (each.topic, each.partition) == current])
            expected_rows, expected_dead_letters = self._expected(split, shape, latest)
            rows, dead = rows + expected_rows.num_rows, dead + expected_dead_letters.num_rows
            if self._by_rows:
                self._compare(self._directory, self._manifest.files, split, expected_rows, self._columns)
                letters = dead_letter_directory(self._directory)
                self._compare(letters, self._manifest.dead_letters, split, expected_dead_letters, DEAD_COLUMNS)
            done += split.size
            self._watch(JobProgress("checking", number + 1, len(splits), rows, done, total))
        for path, files, found in (
            (self._directory, self._manifest.files, rows),
            (dead_letter_directory(self._directory), self._manifest.dead_letters, dead),
        ):
            exported = sum(file.records for file in files)
            if exported != found:
                self._proof.note(path, f"{exported:,} records were exported, the sources have {found:,}")

    def _splits(self) -> list[Split]:
        """Return the splits of the exported offsets of all partitions, planned with the options in the manifest."""
        extents = [each for each in self._manifest.partitions if each.end > each.start]
        if not extents:
            return []
        assigned: dict[str, set[int]] = {}
        for each in extents:
            assigned.setdefault(each.topic, set()).add(each.partition)
        manifest_options = self._manifest.options
        source_options = SourceOptions(
            paths=tuple(manifest_options["paths"]),
            tier=manifest_options.get("tier"),
            assign={topic: frozenset(numbers) for topic, numbers in assigned.items()},
            start=Bound(EARLIEST, {TopicPartition(each.topic, each.partition): each.start for each in extents}),
            end=Bound(LATEST, {TopicPartition(each.topic, each.partition): each.end for each in extents}),
            columns=self._columns,
            include_control=self._include_control,
            include_internal=True,
            isolation=Isolation(manifest_options["isolation"]),
            on_corruption=self._on_corruption,
            fail_on_data_loss=False,
            beyond_high_watermark=True,
        )
        return plan(source_options)

    def _decoders(self, splits: Sequence[Split]) -> tuple[Decoder | None, Decoder | None]:
        known = {"key": Survey(), "value": Survey()}
        specs = dict(zip(("key", "value"), self._specs, strict=True))
        names = [name for name, spec in specs.items() if spec.infers]
        if names:
            for split in splits:
                for batch in self._read(split, names):
                    for name in names:
                        known[name] |= survey(specs[name], batch.column(name))
        key, value = (None if spec.format == "raw" else make_decoder(spec, known[name]) for name, spec in specs.items())
        return key, value

    def _read(self, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in read(split, columns, on_corruption=OnCorruption.SKIP, include_control=self._include_control):
            if batch.num_rows:
                yield batch

    def _latest_offsets(self, splits: Sequence[Split]) -> pa.Array:
        """Return the latest offset of each key in one partition: those of the rows that a --latest-by-key table keeps,
        and of tombstones. splits: all splits of the partition."""
        known = pa.table({"key": pa.array([], pa.binary()), "offset": pa.array([], pa.int64())})
        for split in splits:
            for batch in self._read(split, ("key", "offset")):
                both = pa.concat_tables([known, pa.Table.from_batches([batch])])
                latest = both.group_by("key").aggregate([("offset", "max")])
                known = latest.select(["key", "offset_max"]).rename_columns(["key", "offset"])
        return known.column("offset").combine_chunks()

    def _expected(self, split: Split, shape: Shape, latest: pa.Array | None) -> tuple[pa.Table, pa.Table]:
        """Return the rows that a split's records give in the table and in the dead-letter table.

        latest: the offsets that a --latest-by-key table keeps; None for any other table.
        """
        needed = tuple(dict.fromkeys((*shape.reads, *(("key", "value", *DEAD_COLUMNS) if self._latest else ()))))
        rows: list[pa.RecordBatch] = []
        dead: list[pa.RecordBatch] = []
        for batch in self._read(split, needed):
            kept = batch
            if self._latest:
                keyless = pc.is_null(batch.column("key"))
                dead.append(batch.filter(keyless).select(DEAD_COLUMNS))
                live = pc.and_(pc.is_valid(batch.column("value")), pc.invert(keyless))
                kept = batch.filter(pc.and_(live, pc.is_in(batch.column("offset"), value_set=latest)))
            good, bad = shape.apply(kept)
            rows.append(good)
            if bad is not None:
                dead.append(bad.select(DEAD_COLUMNS))
        return _table(rows), _table(dead)

    def _compare(
        self, directory: Path, files: Sequence[DataFile], split: Split, expected: pa.Table, columns: Sequence[str]
    ) -> None:
        if expected.num_rows == 0:
            return
        offsets = pc.min_max(expected.column("offset"))
        first, last = offsets["min"].as_py(), offsets["max"].as_py()
        found = [
            _rows(directory, each, split, first, last)
            for each in files
            if any(
                (part.topic, part.partition) == (split.topic, split.partition)
                and part.first <= last
                and part.last >= first
                for part in each.ranges
            )
        ]
        where = f"{split.topic}-{split.partition}"
        actual = pa.concat_tables(found, promote_options="default").sort_by("offset") if found else expected.slice(0, 0)
        expected = expected.sort_by("offset")
        if actual.column("offset").to_pylist() != expected.column("offset").to_pylist():
            self._proof.note(directory, f"{where}: {_difference(actual, expected)}")
            return
        for name in columns:
            if name in actual.schema.names:
                column = expected.column(name)
                if not actual.column(name).cast(column.type).combine_chunks().equals(column.combine_chunks()):
                    at = _first_difference(actual.column(name), column)
                    offset = expected.column("offset")[at].as_py()
                    self._proof.note(directory, f"{where}: {name} at offset {offset:,} is not what the source has")


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    filled = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(filled) if filled else pa.table({"offset": pa.array([], pa.int64())})


def _rows(directory: Path, file: DataFile, split: Split, first: int, last: int) -> pa.Table:
    """Return the rows of a file that are of the split's partition, with offsets from `first` to `last` inclusive."""
    names = pq.read_schema(directory / file.path).names
    condition = (pc.field("offset") >= first) & (pc.field("offset") <= last)
    if "topic" in names:
        condition &= pc.field("topic") == split.topic
    if "partition" in names:
        condition &= pc.field("partition") == split.partition
    return pq.read_table(directory / file.path, filters=condition, partitioning=None)


def _difference(actual: pa.Table, expected: pa.Table) -> str:
    """Return a text that says how the offsets of the rows of `actual` and `expected` differ; "" if both have the same
    offsets, each once. Other columns are not compared.

    The text names the first offset that is twice in `actual`; if there is none, it counts the missing and the extra
    offsets.
    """
    actual_offsets, expected_offsets = actual.column("offset").to_pylist(), expected.column("offset").to_pylist()
    if len(set(actual_offsets)) < len(actual_offsets):
        offsets_before: set[int] = set()
        twice = next(offset for offset in actual_offsets if offset in offsets_before or offsets_before.add(offset))  # type: ignore[func-returns-value]
        return f"offset {twice:,} is there twice"
    missing, extra = (
        sorted(set(expected_offsets) - set(actual_offsets)),
        sorted(set(actual_offsets) - set(expected_offsets)),
    )
    parts = (
        [f"{len(missing):,} records of the source are missing, the first at offset {missing[0]:,}"] if missing else []
    )
    parts += [f"{len(extra):,} rows are no records of the source, the first at offset {extra[0]:,}"] if extra else []
    return "; ".join(parts)


def _first_difference(actual: Any, expected: Any) -> int:
    pairs: Mapping[int, Any] = dict(enumerate(zip(actual.to_pylist(), expected.to_pylist(), strict=True)))
    return next((at for at, (one, other) in pairs.items() if one != other), 0)

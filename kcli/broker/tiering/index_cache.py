"""The indexes of segments in the tier, kept as files on this broker: a read needs them before it reads the segment.

    remote-log-index-cache/    in the first log directory
      <start offset>_<segment id>.index .timeindex .txnindex

    open    the three files of a segment, opened; fetched from the store first if they are not there
    bound   of all files together (remote.log.index.file.cache.total.size.bytes): the segments that were not used for
            the longest time are removed. A file that a read has open stays readable
    expire  what was not used for remote.log.index.file.cache.ttl.ms is removed when the cache is used next
    load    at the start: files of a crash (`.tmp`, `.deleted`), of a segment without all three, and those that cannot
            be an index of the segment are removed, and fetched anew when they are needed

A segment without a transaction index has an empty file, as in Kafka. Any thread may call any method; two threads that
need the same segment fetch it once. Source: RemoteIndexCache, whose eviction is by frequency of use, too.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.txn_index import AbortedTxn
from formats.txn_index import parse as parse_txn_index
from kcli.errors import KcliError, UnreadableInput, error_text
from kcli.log.disk import Disk, DiskFile
from kcli.log.live.index import OFFSET_ENTRY, TIME_ENTRY
from kcli.tier.layout import object_name
from kcli.tier.segment import RemoteSegment
from kcli.tier.store import ObjectMissing, Store

log = logging.getLogger("kcli.broker")

DIRECTORY: Final = "remote-log-index-cache"
KINDS: Final = FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX
INDEX_BYTES_MAX: Final = 2**31 - 1
"""The size of the largest index: Kafka maps it whole."""
COPY_BYTES: Final = 1 << 20
ATTEMPTS_MAX: Final = 10


class BadIndex(KcliError):
    """An index that cannot be that of its segment."""


class Indexes:
    """The open index files of a segment in tiered storage. Offset and time index are searched on disk, without reading
    them whole; a transaction index is read whole."""

    def __init__(self, start_offset: int, files: tuple[DiskFile, DiskFile, DiskFile]) -> None:
        self._start_offset = start_offset
        self._offsets, self._times, self._aborted = files
        self._offset_count = self._offsets.size() // OFFSET_ENTRY.size
        self._time_count = self._times.size() // TIME_ENTRY.size

    def position_of(self, offset: int) -> int:
        """Return the byte of the segment from which to look for `offset`."""
        relative = offset - self._start_offset
        found = bisect_right(range(self._offset_count), relative, key=lambda i: self._offset_entry(i)[0])
        return self._offset_entry(found - 1)[1] if found else 0

    def position_of_time(self, timestamp: int, from_offset: int) -> int:
        """Return the byte of the segment from which to look for a record at or above `from_offset` with a timestamp
        (ms) of at least `timestamp`."""
        found = bisect_right(range(self._time_count), timestamp, key=lambda i: self._time_entry(i)[0])
        indexed = self._start_offset + self._time_entry(found - 1)[1] if found else self._start_offset
        return self.position_of(max(indexed, from_offset))

    def upper_bound(self, position: int) -> int | None:
        """Return an offset above those of all batches before byte `position`; None if no entry is that far. The first
        entry does not count if it is at `position`. Source: OffsetIndex.fetchUpperBoundOffset."""
        found = bisect_left(range(self._offset_count), position, key=lambda i: self._offset_entry(i)[1])
        if found == 0 and self._offset_count and self._offset_entry(0)[1] == position:
            found = 1
        return self._start_offset + self._offset_entry(found)[0] if found < self._offset_count else None

    def aborted(self) -> tuple[AbortedTxn, ...]:
        """Return the aborted transactions whose markers are in the segment. Raises FormatError."""
        return parse_txn_index(self._aborted.read(self._aborted.size(), 0))

    def check(self) -> None:
        """Raise BadIndex or FormatError if these cannot be indexes of the segment. Source: sanityCheck of OffsetIndex,
        TimeIndex and TransactionIndex."""
        path, start = self._offsets.path, self._start_offset
        if self._offsets.size() % OFFSET_ENTRY.size or self._times.size() % TIME_ENTRY.size:
            raise BadIndex(f"{path}: an entry is cut")
        if self._offset_count and self._offset_entry(self._offset_count - 1)[0] < 0:
            raise BadIndex(f"{path}: the last entry is below the start offset {start:,}")
        if self._time_count:
            first, last = self._time_entry(0), self._time_entry(self._time_count - 1)
            if last[1] < 0 or last[0] < first[0]:
                raise BadIndex(f"{self._times.path}: the last entry is below the first one")
        if any(each.last_offset < start for each in self.aborted()):
            raise BadIndex(f"{self._aborted.path}: a transaction ends below the start offset {start:,}")

    def _offset_entry(self, i: int) -> tuple[int, int]:
        """Return the relative offset and the position of an entry."""
        relative, position = OFFSET_ENTRY.unpack(self._entry(self._offsets, i, OFFSET_ENTRY.size))
        return relative, position

    def _time_entry(self, i: int) -> tuple[int, int]:
        """Return the timestamp (ms) and the relative offset of an entry."""
        timestamp, relative = TIME_ENTRY.unpack(self._entry(self._times, i, TIME_ENTRY.size))
        return timestamp, relative

    @staticmethod
    def _entry(file: DiskFile, i: int, size: int) -> bytes:
        data = file.read(size, i * size)
        if len(data) != size:
            raise BadIndex(f"{file.path}: the file has become shorter")
        return data


class _Cached(NamedTuple):
    """The files of a segment. size: in bytes. used_ms: when they were last used."""

    size: int
    used_ms: float


class IndexCache:
    """The cached indexes below a log directory. size_max_bytes: returns the limit for all files together. ttl_ms:
    returns after how many milliseconds without use the files of a segment are removed; not above 0 for never. now_ms:
    returns the time by a clock that never goes back."""

    def __init__(
        self,
        log_directory: Path,
        store: Store,
        size_max_bytes: Callable[[], int],
        disk: Disk | None = None,
        *,
        ttl_ms: Callable[[], int] = lambda: -1,
        now_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        self._directory = log_directory / DIRECTORY
        self._store = store
        self._size_max_bytes = size_max_bytes
        self._ttl_ms, self._now_ms = ttl_ms, now_ms
        self._disk = Disk() if disk is None else disk
        self._guard = Lock()
        self._cached: OrderedDict[tuple[int, str], _Cached] = OrderedDict()  # by start offset and id, last used last
        self._loading: dict[tuple[int, str], Future[None]] = {}
        self.size = 0
        """Bytes of all files."""

    # starting

    def load(self) -> None:
        """Make the directory, or take over the files in it. Raises OSError."""
        self._disk.make_directory(self._directory)
        found: dict[tuple[int, str], set[FileKind]] = {}
        for path in sorted(self._directory.iterdir()):
            name = parse(path.name)
            if name is None or name.remote_id is None or name.base_offset is None or name.kind not in KINDS:
                continue
            key = name.base_offset, name.remote_id
            if name.state:
                self._disk.remove(path)
            elif path == self._path(key, name.kind):
                found.setdefault(key, set()).add(name.kind)
        for key, kinds in found.items():
            if len(kinds) == len(KINDS) and self._is_sound(key):
                self._add(key)
            else:
                self._remove_files(key)
        self._shrink()

    def _is_sound(self, key: tuple[int, str]) -> bool:
        try:
            with self._opened(key) as indexes:
                indexes.check()
        except (BadIndex, FormatError, OSError) as error:
            log.warning("a cached index is fetched anew: %s", error_text(error))
            return False
        return True

    # opening the indexes of a segment

    @contextmanager
    def open(self, segment: RemoteSegment) -> Iterator[Indexes]:
        """Yield the indexes of a segment. Waits for the store if they are not cached.

        If the context ends with a FormatError, they may have led to wrong bytes: they are removed, and fetched anew
        when they are needed. Raises what the store raises, OSError; BadIndex or FormatError for an object that is no
        index.
        """
        key = segment.start_offset, segment.id
        self._expire()
        try:
            with ExitStack() as stack:
                yield self._enter(segment, key, stack)
        except FormatError:
            self.remove([key])
            raise

    def _enter(self, segment: RemoteSegment, key: tuple[int, str], stack: ExitStack) -> Indexes:
        """Return the indexes of a segment, opened on the stack."""
        for _ in range(ATTEMPTS_MAX):
            with self._guard:
                cached = self._cached.get(key)
                if cached is not None:
                    self._cached[key] = cached._replace(used_ms=self._now_ms())
                    self._cached.move_to_end(key)
            if cached is None:
                self._fetch_once(segment, key)
            try:
                return stack.enter_context(self._opened(key))
            except FileNotFoundError:  # removed since, as there is little room; or by somebody else
                self.remove([key])
        raise UnreadableInput(str(self._path(key, FileKind.OFFSET_INDEX)), "the file is removed again and again")

    def _fetch_once(self, segment: RemoteSegment, key: tuple[int, str]) -> None:
        """Fetch the files of a segment, or wait until another thread has done so."""
        with self._guard:
            under_way = self._loading.get(key)
            if under_way is None:
                loading = self._loading[key] = Future()
        if under_way is not None:
            under_way.result()
            return
        try:
            self._fetch(segment, key)
        except BaseException as error:
            loading.set_exception(error)
            raise
        else:
            loading.set_result(None)
        finally:
            with self._guard:
                del self._loading[key]

    @contextmanager
    def _opened(self, key: tuple[int, str]) -> Iterator[Indexes]:
        with ExitStack() as files:
            offsets, times, aborted = (
                files.enter_context(self._disk.open(self._path(key, kind), read_only=True)) for kind in KINDS
            )
            yield Indexes(key[0], (offsets, times, aborted))

    def _fetch(self, segment: RemoteSegment, key: tuple[int, str]) -> None:
        for kind in KINDS:
            path = self._path(key, kind)
            temporary = path.with_name(path.name + ".tmp")
            with self._disk.open(temporary, create=True, truncate=True) as file:
                if kind is not FileKind.TXN_INDEX or segment.has_txn_index:
                    self._copy(object_name(segment.partition, segment.start_offset, segment.id, kind), kind, file)
            self._disk.rename(temporary, path)
        try:
            with self._opened(key) as indexes:
                indexes.check()
        except (BadIndex, FormatError):
            self._remove_files(key)
            raise
        with self._guard:
            self._add(key)
        self._shrink(keep=key)

    def _copy(self, name: str, kind: FileKind, file: DiskFile) -> None:
        try:
            source = self._store.open(name)
        except ObjectMissing:
            if kind is FileKind.TXN_INDEX:  # records of older releases do not tell whether there is one
                return
            raise
        try:
            if source.size() > INDEX_BYTES_MAX:
                raise UnreadableInput(source.name, f"{source.size():,} bytes are more than an index can have")
            buffer, done = memoryview(bytearray(min(COPY_BYTES, max(1, source.size())))), 0
            while got := source.read_at(done, buffer):
                done += file.write([buffer[:got]], done)
        finally:
            source.close()

    # bounding

    def remove(self, keys: Iterable[tuple[int, str]]) -> None:
        """Remove the files of segments that are deleted, given their start offsets and ids. Raises OSError."""
        for key in keys:
            with self._guard:
                self._drop(key)
            self._remove_files(key)

    def _add(self, key: tuple[int, str]) -> None:
        self._drop(key)
        size = sum(self._path(key, kind).stat().st_size for kind in KINDS)
        self.size += size
        self._cached[key] = _Cached(size, self._now_ms())

    def _drop(self, key: tuple[int, str]) -> None:
        cached = self._cached.pop(key, None)
        self.size -= 0 if cached is None else cached.size

    def _expire(self) -> None:
        """Remove the files that were not used for the time that `ttl_ms` returns."""
        ttl_ms = self._ttl_ms()
        if ttl_ms > 0:
            self._remove_oldest(lambda _, cached: self._now_ms() - cached.used_ms >= ttl_ms)

    def _shrink(self, keep: tuple[int, str] | None = None) -> None:
        """Remove the files that were not used for the longest time, as long as there are too many bytes; not those of
        `keep`, which are about to be read."""
        limit = self._size_max_bytes()
        self._remove_oldest(lambda key, _: key != keep and self.size > limit)

    def _remove_oldest(self, is_due: Callable[[tuple[int, str], _Cached], bool]) -> None:
        """Remove the files of the segment that was not used for the longest time, as long as `is_due` says so of it."""
        while True:
            with self._guard:
                oldest = next(iter(self._cached.items()), None)
                if oldest is None or not is_due(*oldest):
                    return
                self._drop(oldest[0])
            self._remove_files(oldest[0])

    def _remove_files(self, key: tuple[int, str]) -> None:
        for kind in KINDS:
            self._disk.remove(self._path(key, kind))

    def _path(self, key: tuple[int, str], kind: FileKind) -> Path:
        return self._directory / f"{key[0]}_{key[1]}{kind.value}"

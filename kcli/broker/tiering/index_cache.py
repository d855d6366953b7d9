"""A cache, in files of this broker, of the indexes of segments in the tier: a read needs them before it reads the
segment.

    remote-log-index-cache/    in the first log directory
      <start offset>_<segment id>.index .timeindex .txnindex

    open    opens the three index files of a segment; files that are missing are fetched from the store before
    bound   the size of all files is limited (remote.log.index.file.cache.total.size.bytes): the files of the segments
            that were not used for the longest time are removed. A file that a read has open stays readable
    expire  files that were not used for remote.log.index.file.cache.ttl.ms are removed when the cache is used next
    load    at the start, files that a crash has left (`.tmp`, `.deleted`), files of a segment without all three, and
            files that cannot be an index of their segment are removed; they are fetched anew when they are needed

The cached file for a segment without a transaction index is empty, as in Kafka. Any thread may call any method; if two
threads need the same segment, only one fetches it. Source: RemoteIndexCache, whose eviction is by frequency of use,
too.
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
"""The size, in bytes, of the largest index: Kafka maps an index into memory as a whole."""
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
        """Return the position in the segment, in bytes, from which to search for `offset`."""
        relative = offset - self._start_offset
        found = bisect_right(range(self._offset_count), relative, key=lambda i: self._offset_entry(i)[0])
        return self._offset_entry(found - 1)[1] if found else 0

    def position_of_time(self, timestamp: int, from_offset: int) -> int:
        """Return the position in the segment, in bytes, from which to search for a record at or above `from_offset`
        with a timestamp (ms) of at least `timestamp`."""
        found = bisect_right(range(self._time_count), timestamp, key=lambda i: self._time_entry(i)[0])
        indexed = self._start_offset + self._time_entry(found - 1)[1] if found else self._start_offset
        return self.position_of(max(indexed, from_offset))

    def upper_bound(self, position: int) -> int | None:
        """Return an offset above those of all batches before byte `position`: that of the first entry of the offset
        index at or after this byte (after it, for the index's first entry); None if there is none. Source:
        OffsetIndex.fetchUpperBoundOffset."""
        found = bisect_left(range(self._offset_count), position, key=lambda i: self._offset_entry(i)[1])
        if found == 0 and self._offset_count and self._offset_entry(0)[1] == position:
            found = 1
        return self._start_offset + self._offset_entry(found)[0] if found < self._offset_count else None

    def aborted(self) -> tuple[AbortedTxn, ...]:
        """Return the aborted transactions whose markers are in the segment. Raises FormatError."""
        return parse_txn_index(self._aborted.read(self._aborted.size(), 0))

    def check(self) -> None:
        """Raise BadIndex or FormatError if the files cannot be the indexes of the segment. Source: sanityCheck of
        OffsetIndex, TimeIndex and TransactionIndex."""
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
    """The cached files of a segment. size: of all three, in bytes. used_ms: when they were last used, by IndexCache's
    now_ms."""

    size: int
    used_ms: float


class IndexCache:
    """The cached indexes below a log directory. size_max_bytes: returns the limit for all files together. ttl_ms:
    returns after how many milliseconds without use the files of a segment are removed; 0 or less for never. now_ms:
    returns the time, in ms, by a clock that never goes back."""

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
        self._cached: OrderedDict[tuple[int, str], _Cached] = OrderedDict()  # by start offset and id, in order of use
        self._loading: dict[tuple[int, str], Future[None]] = {}
        self.size = 0
        """Bytes of all files."""

    # starting

    def load(self) -> None:
        """Make the cache's directory, or load the files of an existing one, and remove unusable files. Raises
        OSError."""
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
        """Yield the indexes of a segment. Blocks until they are fetched from the store, if they are not cached.

        If the code in the context raises FormatError, the indexes may have led it to wrong bytes: they are removed, and
        fetched again when they are needed. Raises what the store raises, OSError; BadIndex or FormatError for an object
        that is no index.
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
        """Return the indexes of a segment, fetched if they are not cached; `stack` closes their files. key: the
        segment's start offset and id."""
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
            except FileNotFoundError:  # removed meanwhile, perhaps to make room
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
            if kind is FileKind.TXN_INDEX:  # older releases do not record whether there is one
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
        """Remove the cached files of segments. keys: the start offset and id of each. Raises OSError."""
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
        """Remove files, those that were not used for the longest time first, until the size of all files is within the
        limit. keep: a segment whose files stay, as they are about to be read."""
        limit = self._size_max_bytes()
        self._remove_oldest(lambda key, _: key != keep and self.size > limit)

    def _remove_oldest(self, is_due: Callable[[tuple[int, str], _Cached], bool]) -> None:
        """While `is_due` returns True for the segment that was not used for the longest time, remove its files."""
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

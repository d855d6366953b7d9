"""A segment whose bytes are in chunks of a .log object, as a Source; and an index in a section of the .indexes object.

One chunk is in memory at a time, both as stored and as part of the segment. The sizes in the manifest are compared with
the object before memory is allocated, and a chunk that decompresses to more bytes than the manifest says is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from formats.compression import ZSTD, decompress
from formats.errors import FormatError
from formats.segment_manifest import Chunk, Section, SegmentManifest
from kcli.log.source import Source
from kcli.tier.key_pairs import Seal
from kcli.tier.store import DamagedObject


class ChunkedSource:
    """The bytes of a segment. source: the .log object, which `close` closes. seal: decrypts; None if not encrypted.

    Raises DamagedObject, with the byte of the object where the faulty chunk begins.
    """

    def __init__(self, source: Source, manifest: SegmentManifest, seal: Seal | None) -> None:
        self.name = source.name
        self._source = source
        self._chunks = manifest.chunks
        self._is_compressed = manifest.is_compressed
        self._seal = seal
        self._first = 0
        self._data = memoryview(b"")

    def size(self) -> int:
        return self._chunks.file_size

    def read_at(self, position: int, buffer: memoryview) -> int:
        buffer = buffer[: max(0, self._chunks.file_size - position)]
        done = 0
        while done < len(buffer):
            at = position + done - self._first
            if not 0 <= at < len(self._data):
                self._move(position + done)
                at = position + done - self._first
            part = self._data[at : at + len(buffer) - done]
            buffer[done : done + len(part)] = part
            done += len(part)
        return done

    def close(self) -> None:
        self._data = memoryview(b"")
        self._source.close()

    def _move(self, position: int) -> None:
        """Read the chunk that holds byte `position` of the segment into memory, in place of the present one."""
        chunk = self._chunks.chunk_at(position)
        self._data = memoryview(b"")  # frees the present chunk before the next one is read
        what = f"chunk {chunk.number + 1:,} of {self._chunks.chunks:,}"
        data = taken(self._source, Section(chunk.start, chunk.size), what, chunk.position, chunk.length)
        try:
            data = self._original(data, chunk)
        except FormatError as error:
            raise DamagedObject(
                self.name, f"{what}: {error.reason}", chunk.start, chunk.position, chunk.length
            ) from None
        if len(data) != chunk.length:
            reason = f"{what}: {len(data):,} bytes of the segment in place of {chunk.length:,}"
            raise DamagedObject(self.name, reason, chunk.start, chunk.position, chunk.length)
        self._first, self._data = chunk.position, data

    def _original(self, data: memoryview, chunk: Chunk) -> memoryview:
        if self._seal is not None:
            data = memoryview(self._seal.opened(data))
        return memoryview(decompress(ZSTD, data, limit=chunk.length)) if self._is_compressed else data


class Beginning:
    """The bytes of a source before its damage, as a source. size: their number. `close` closes the source."""

    def __init__(self, source: Source, size: int) -> None:
        self.name = source.name
        self._source = source
        self._size = size

    def size(self) -> int:
        return self._size

    def read_at(self, position: int, buffer: memoryview) -> int:
        return self._source.read_at(position, buffer[: max(0, self._size - position)])

    def close(self) -> None:
        self._source.close()


class CheckedSource(Beginning):
    """A .log object that is the segment, byte for byte. source: the object, which `close` closes. size: that of the
    segment. Raises DamagedObject if the object ends before byte `size`."""

    def read_at(self, position: int, buffer: memoryview) -> int:
        got = super().read_at(position, buffer)
        if got < min(len(buffer), self._size - position):
            end = self._source.size()
            reason = f"the object ends here, and the segment at byte {self._size:,}"
            raise DamagedObject(self.name, reason, end, end, self._size - end)
        return got


class Holes:
    """A segment with zeros in place of its damaged chunks, so that the bytes behind them can be read; zeros are no
    batch. source: the segment, which `close` closes. told: a function that is called once with each damage."""

    def __init__(self, source: Source, told: Callable[[DamagedObject], None]) -> None:
        self.name = source.name
        self._source = source
        self._told = told
        self._known: set[int] = set()

    def size(self) -> int:
        return self._source.size()

    def read_at(self, position: int, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer):
            try:
                got = self._source.read_at(position + done, buffer[done:])
            except DamagedObject as error:
                got = self._around(error, position + done, buffer[done:])
            if not got:
                break
            done += got
        return done

    def close(self) -> None:
        self._source.close()

    def _around(self, damage: DamagedObject, position: int, buffer: memoryview) -> int:
        """Read the bytes before `damage`, or zeros in its place. Raises `damage` if no byte behind it can be read."""
        if damage.sound > position:
            return self._source.read_at(position, buffer[: damage.sound - position])
        length = min(len(buffer), damage.sound + damage.lost - position)
        if length <= 0:
            raise damage
        if damage.sound not in self._known:
            self._known.add(damage.sound)
            self._told(damage)
        buffer[:length] = bytes(length)
        return length


def read_section(source: Source, section: Section, seal: Seal | None, what: str) -> bytes:
    """Return the bytes of an index, decrypted. source: the .indexes object. seal: decrypts; None if not encrypted.
    what: the index, for errors. Raises DamagedObject."""
    data = taken(source, section, what)
    if seal is None or not section.size:
        return bytes(data)
    try:
        return seal.opened(data)
    except FormatError as error:
        raise DamagedObject(source.name, f"{what}: {error.reason}", section.position) from None


def taken(source: Source, section: Section, what: str, sound: int = 0, lost: int = 0) -> memoryview:
    """Return the bytes of a section of an object. what: the section, for errors. Raises DamagedObject, with the numbers
    `sound` and `lost`, if the object ends before the end of the section."""
    size = source.size()
    if section.position + section.size > size:
        reason = f"{what}: {section.size:,} bytes, and the object ends at byte {size:,}"
        raise DamagedObject(source.name, reason, section.position, sound, lost)
    data = bytearray(section.size)
    got = source.read_at(section.position, memoryview(data))
    if got < len(data):
        raise DamagedObject(source.name, f"{what}: {len(data):,} bytes, of which {got:,} are there", section.position)
    return memoryview(data)

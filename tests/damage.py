"""Damage for tests: to logs, and to the directories that hold them, drawn from a seeded `Random`.

changed     changes the bytes of a log: flips, cuts, splices, moved batches, extreme numbers in headers and records
mended      corrects the CRCs of all batches, so that a reader looks at the damage behind the CRC
disordered  changes the files of a partition, so that names, sizes and neighbours contradict their content
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from formats.kernels.crc import crc32, crc32c

# Position and size of fields in a header of magic 2. The CRC at byte 17 is missing: `mended` computes it.
BASE_OFFSET, LENGTH = (0, 8), (8, 4)
FIELDS = (BASE_OFFSET, LENGTH, (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))
EXTREMES = (
    *(0, 1, -1, 2, -2, 7, 48, 49, 127, 128, 255, 2**15 - 1, -(2**15), 2**16, 2**31 - 1, -(2**31), 2**31, 2**32 - 1),
    *(2**40, 2**62, 2**63 - 1, 2**63 - 2, 2**63 - 2**31, -(2**63), -(2**63) + 1),
)
HEADER_BYTES = 61
NAMES = (0, 1, 9_999, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 2**31, 2**63 - 2, 2**63 - 1)


def frames(data: bytes | bytearray) -> list[tuple[int, int]]:
    """Return (start, size) of the batches at the beginning, as far as the lengths are plausible."""
    found, at = [], 0
    while at + 18 <= len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], signed=True)
        if size < 26 or at + size > len(data):
            break
        found.append((at, size))
        at += size
    return found


def mended(data: bytes | bytearray) -> bytes:
    """Return the bytes with correct CRCs."""
    whole = bytearray(data)
    for start, size in frames(whole):
        at, covered, checksum = (17, 21, crc32c) if whole[start + 16] in range(2, 128) else (12, 16, crc32)
        if size > covered:
            value = checksum(bytes(whole[start + covered : start + size]))
            whole[start + at : start + at + 4] = value.to_bytes(4)
    return bytes(whole)


def wrapped(value: int, size: int) -> bytes:
    """Return the low bytes of a number, as a cast in Java does."""
    return (value % (1 << 8 * size)).to_bytes(size)


def varint(value: int) -> bytes:
    """Return the number as a zigzag varint of 64 bits."""
    raw, out = ((value << 1) ^ (value >> 63)) % (1 << 64), bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def extreme(random: Random, near: int = 0) -> int:
    """Return a number at a limit of arithmetic or memory, or a neighbour of `near`."""
    return random.choice(EXTREMES) if random.random() < 0.7 else near + random.choice((-2, -1, 1, 2, 2**31, -(2**31)))


def changed(data: bytes, random: Random, other: bytes = b"") -> bytes:
    """Return the log with one to four changes; bytes of `other` may be spliced in."""
    log = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        _change(log, random, other or data)
    return mended(log) if random.random() < 0.8 else bytes(log)


def _change(log: bytearray, random: Random, other: bytes) -> None:
    how = random.random()
    batches = frames(log)
    if how < 0.35 and batches:
        start, size = random.choice(batches)
        at, width = random.choice(FIELDS)
        if at + width <= size:
            near = int.from_bytes(log[start + at : start + at + width], signed=True)
            log[start + at : start + at + width] = wrapped(extreme(random, near), width)
    elif how < 0.6 and batches:
        start, size = random.choice(batches)
        if size > HEADER_BYTES:
            at = start + random.randrange(HEADER_BYTES, min(size, random.choice((HEADER_BYTES + 12, size)) + 1))
            value = varint(extreme(random))
            log[at : at + len(value)] = value
            del log[max(start + size, at + len(value)) : at + len(value)]
    elif how < 0.75:
        for _ in range(random.choice((1, 2, 8))):
            if log:
                log[random.randrange(len(log))] ^= 1 << random.randrange(8)
    elif how < 0.83:
        del log[random.randrange(len(log) + 1) :]
    elif how < 0.91 and len(batches) > 1:
        first, second = random.choice(batches), random.choice(batches)
        moved = bytes(log[first[0] : sum(first)])
        at = second[0]
        if random.random() < 0.5:
            del log[first[0] : sum(first)]
        log[at:at] = moved
    else:
        at, start = random.randrange(len(log) + 1), random.randrange(len(other) + 1)
        log[at : at + random.choice((0, 0, 4, 64))] = other[start : start + random.choice((1, 8, 61, 200))]


def segments(partition: Path) -> list[Path]:
    """Return the .log files whose names are base offsets, by name."""
    return sorted(path for path in partition.glob("*.log") if path.is_file() and path.stem.isdecimal())


def renamed(path: Path, base_offset: int) -> None:
    """Rename a segment and its indexes to another base offset."""
    for each in [each for each in path.parent.glob(f"{path.stem}.*") if each.is_file()]:
        each.rename(each.with_name(f"{base_offset:020}{each.suffix}"))


def empty_between(partition: Path, random: Random) -> None:
    """Add an empty segment whose base offset is inside another segment, or a random one."""
    bases = [int(path.stem) for path in segments(partition)] or [0]
    base = random.choice([9_999, *NAMES, *(max(0, random.choice(bases) + extra) for extra in (1, 7, 50))])
    (partition / f"{base:020}.log").touch()
    if random.random() < 0.5:
        (partition / f"{base:020}.index").write_bytes(bytes(random.choice((0, 8, 4096))))


def named_elsewhere(partition: Path, random: Random) -> None:
    """Rename a segment to a base offset above or below its first batch."""
    path = random.choice(segments(partition))
    base = random.choice([*NAMES, max(0, int(path.stem) + random.choice((-50, -1, 1, 50, 10**6)))])
    renamed(path, base)


def swapped(partition: Path, random: Random) -> None:
    """Exchange the names of two logs; their indexes stay."""
    logs = segments(partition)
    one, two = random.choice(logs), random.choice(logs)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def doubled(partition: Path, random: Random) -> None:
    """Copy a segment to a second name."""
    path = random.choice(segments(partition))
    base = random.choice([*NAMES, int(path.stem) + random.choice((1, 5, 1000))])
    for each in list(partition.glob(f"{path.stem}.*")):
        if each.is_file():
            (partition / f"{base:020}{each.suffix}").write_bytes(each.read_bytes())


def overlapping(partition: Path, random: Random) -> None:
    """Copy all batches of one segment to the end or to the front of another."""
    logs = segments(partition)
    one, two = random.choice(logs), random.choice(logs)
    parts = [one.read_bytes(), two.read_bytes()]
    if random.random() < 0.5:
        parts.reverse()
    two.write_bytes(b"".join(parts))


def without_file(partition: Path, random: Random) -> None:
    """Delete a file: an index, a snapshot or a log."""
    files = sorted(path for path in partition.iterdir() if path.is_file())
    if len(files) > 1:
        random.choice(files).unlink()


def emptied(partition: Path, random: Random) -> None:
    """Replace a log or an index by an empty file, or by zeros."""
    path = random.choice(sorted(path for path in partition.iterdir() if path.is_file()))
    path.write_bytes(bytes(random.choice((0, 0, 12, path.stat().st_size))))


def offsets_moved(partition: Path, random: Random) -> None:
    """Add a number to the base offsets of all batches of a segment, up to the largest offset."""
    path = random.choice(segments(partition))
    log = bytearray(path.read_bytes())
    by = random.choice((-100, 100, 2**31 - 1, 2**31, 2**40, 2**63 - 1 - random.choice((0, 1, 50, 2**31))))
    for start, size in frames(log):
        if size >= 26:
            log[start : start + 8] = wrapped(int.from_bytes(log[start : start + 8]) + by, 8)
    path.write_bytes(mended(log))
    if random.random() < 0.5:
        renamed(path, min(2**63 - 1, max(0, int(path.stem) + by)))


def bytes_changed(partition: Path, random: Random) -> None:
    """Change the bytes of a log, or flip and cut those of another file."""
    path = random.choice(sorted(path for path in partition.iterdir() if path.is_file()))
    data = path.read_bytes()
    if path.suffix == ".log":
        path.write_bytes(changed(data, random))
        return
    spoiled = bytearray(data)
    for _ in range(random.choice((1, 3))):
        if spoiled:
            at = random.randrange(len(spoiled))
            spoiled[at : at + 4] = wrapped(extreme(random), 4)
    del spoiled[len(spoiled) - random.choice((0, 0, 1, 5)) :]
    path.write_bytes(spoiled)


DISORDERS = (
    *(empty_between, named_elsewhere, swapped, doubled, overlapping, without_file, emptied, offsets_moved),
    bytes_changed,
)


def disordered(partition: Path, random: Random) -> list[str]:
    """Do one to three kinds of damage to the files of a partition. Returns their names."""
    done = []
    for _ in range(random.choice((1, 1, 2, 3))):
        how = random.choice(DISORDERS)
        if how is without_file or how is emptied or segments(partition):
            how(partition, random)
            done.append(how.__name__)
    return done

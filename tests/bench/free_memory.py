"""Free memory that a hypervisor has taken back costs the process that writes to it first about 1 s for a GB of page
cache, as much as a broker's own work. `use_free_memory` has the kernel hand it out before a load, so that no broker
pays for it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LEFT_FREE_BYTES: Final = 512 << 20
CHUNK_BYTES: Final = 4 << 20
MEMINFO: Final = Path("/proc/meminfo")


def use_free_memory(folder: Path) -> None:
    """Fill the page cache with pages of a sparse file, all but half a GiB, which the kernel then gives to the broker's
    writes. Does nothing where there is no /proc/meminfo. folder: has the file until the bench ends."""
    if not MEMINFO.exists():
        return
    with (folder / "page-cache").open("ab+", buffering=0) as file:
        file.truncate(_bytes("MemTotal"))
        file.seek(0)
        while _bytes("MemFree") > LEFT_FREE_BYTES and all(file.read(CHUNK_BYTES) for _ in range(16)):
            pass


def _bytes(name: str) -> int:
    """A value of /proc/meminfo. Raises KeyError."""
    lines = (line.split(":") for line in MEMINFO.read_text().splitlines())
    return {key: int(value.split()[0]) * 1024 for key, value in lines}[name]

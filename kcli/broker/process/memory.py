"""The memory that the C library keeps after its buffers are freed. Only glibc keeps so much; elsewhere nothing is done.

Each thread allocates from a heap of up to 64 MB. glibc returns the free end of a heap to the system, but not the free
pages below a small object that is still in use. Source: malloc_trim(3), mallopt(3).
"""

from __future__ import annotations

import ctypes
from typing import Final

M_MMAP_THRESHOLD: Final = -3
LARGE_BUFFER_BYTES: Final = 4 << 20


def return_large_buffers() -> None:
    """Have the C library return each buffer of LARGE_BUFFER_BYTES or more to the system as soon as it is freed. By
    default, glibc raises this threshold when a larger buffer is freed, and keeps freed buffers below the threshold in
    the heaps of the threads."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES)


def return_free_pages() -> None:
    """Return the free pages of all heaps to the system, which takes milliseconds. The interpreter's lock is released
    meanwhile."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)

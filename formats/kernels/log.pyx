# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Bulk kernels over the bytes of a log: find, check and decode batches and records as columns.

    BatchTable    one row of int64 per batch header in a window of a log, columns in BATCH_COLUMNS
    RecordTable   one row of int64 per record, columns in RECORD_COLUMNS; starts and lengths point into one buffer

Both are two-dimensional buffers: `memoryview(table)` or `numpy.asarray(table)` sees (rows, columns) without a copy.
The Construct definitions in `formats.record_batch` and `formats.legacy` say what these bytes mean; property tests hold
the two equal. No I/O, no Python object per record; everything heavy runs without the GIL.

Layouts: KIP-98 (magic 2), KIP-32 (magic 1). What Kafka accepts: DefaultRecord, LegacyRecord, FileLogInputStream.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from "crc.h" nogil:
    void crc_init()
    uint32_t crc32c_update(uint32_t crc, const uint8_t *p, size_t n)
    uint32_t crc32_update(uint32_t crc, const uint8_t *p, size_t n)

crc_init()

include "rows.pxi"
include "scan.pxi"
include "decode.pxi"
include "check.pxi"
include "text.pxi"
include "table.pxi"
include "append.pxi"
include "recover.pxi"
include "engine.pxi"
include "clean.pxi"
include "arrow.pxi"
include "build.pxi"
include "write.pxi"

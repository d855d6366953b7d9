# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Bulk kernels over the values of records: Avro, Protobuf and JSON become columns, with no object per record.

A type is a tree of columns, written as rows, each column behind its parent and before its parent's next one:

    kind       BOOLEAN, INT8 .. INT64, FLOAT, DOUBLE, DECIMAL (16 bytes), BINARY, LIST (one child), STRUCT
    meaning    what text of JSON is to be read as: PLAIN, TEXT, DATE, TIMESTAMP (us), LOCAL_TIMESTAMP, MAP
    children   how many children follow
    precision, scale    of a DECIMAL

A map is a LIST of a STRUCT of two. A program says what of a payload goes into which column (see payload_avro.pxi and
payload_protobuf.pxi; JSON needs none beyond the names of fields). Payloads may begin with Confluent's header, which
chooses the program:

    NO_HEADER       the whole payload is the value
    SCHEMA_ID       byte 0, then the schema's id, 4 bytes big endian
    SCHEMA_MESSAGE  the same, then which message of a Protobuf schema: zigzag varints, a count and so many indexes;
                    a count of 0 stands for the one index 0

A payload that does not decode leaves a null, and a fault with the byte at which it was found. Counts and lengths are
held against what remains of the payload before room is made; what takes no bytes at all is counted. No I/O.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport isinf
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

cdef extern from *:
    """
    typedef __int128 kcli_int128;
    typedef unsigned __int128 kcli_uint128;
    """
    ctypedef long long int128 "kcli_int128"
    ctypedef unsigned long long uint128 "kcli_uint128"

BOOLEAN, INT8, INT16, INT32, INT64, FLOAT, DOUBLE, DECIMAL, BINARY, LIST, STRUCT = range(11)
PLAIN, TEXT, DATE, TIMESTAMP, LOCAL_TIMESTAMP, MAP = range(6)
NO_HEADER, SCHEMA_ID, SCHEMA_MESSAGE = range(3)

cdef enum:
    K_BOOLEAN, K_INT8, K_INT16, K_INT32, K_INT64, K_FLOAT, K_DOUBLE, K_DECIMAL, K_BINARY, K_LIST, K_STRUCT

cdef enum:
    M_PLAIN, M_TEXT, M_DATE, M_TIMESTAMP, M_LOCAL_TIMESTAMP, M_MAP

cdef enum:
    H_NONE, H_SCHEMA_ID, H_SCHEMA_MESSAGE

cdef enum:
    DEPTH_MAX = 128
    ITEMS_FREE = 65536  # items of arrays that take no bytes, in one payload

cdef enum Fault:
    OK, NO_MEMORY, CUT, LONG_VARINT, BAD_LENGTH, NOT_UTF8, BAD_BOOLEAN, BAD_BRANCH, BAD_SYMBOL, TOO_MANY, TOO_DEEP
    OUT_OF_RANGE, TRAILING, TOO_LARGE, TWICE, NO_CONFLUENT_HEADER, OTHER_HEADER, NOT_JSON, WRONG_TYPE, OTHER_FIELD
    BAD_TEXT, BAD_TAG, BAD_GROUP

# By fault.
REASONS = (
    "", "", "the payload ends inside a value", "a varint is longer than its type allows", "a length cannot be",
    "text that is not UTF-8", "a boolean that is neither 0 nor 1", "a union has no such branch",
    "an enum has no such symbol", "more items than a payload of this size may have",
    "nested too deep", "a number does not fit its type", "bytes behind the end of the value",
    "the values of one batch are over 2 GiB", "a key or a field is there twice",
    "no Confluent header", "", "not JSON", "a value is not of its column's type", "a field that the type has not",
    "a text that cannot be read as its column's type", "a field's tag cannot be", "a group does not end",
)
HEADER_NOT_KNOWN = OTHER_HEADER
# Where the payload itself, from that byte on, tells most.
ABOUT_TEXT = frozenset((NOT_JSON, WRONG_TYPE, OTHER_FIELD, BAD_TEXT))

include "payload_columns.pxi"
include "payload_input.pxi"
include "payload_avro.pxi"
include "payload_json.pxi"
include "payload_variant.pxi"
include "payload_protobuf.pxi"

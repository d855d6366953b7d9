"""The buffer that kernels write text, batches and index entries into."""

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc


cdef class TextBuffer:
    """A growing byte buffer that kernels write into; `memoryview(buffer)` shows its bytes."""

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size

    def clear(self):
        """Remove the bytes and keep the memory for later ones."""
        if self.exports:
            raise BufferError("a view of the text is still held")
        self.size = 0

    def write(self, const uint8_t[::1] data not None):
        """Append bytes."""
        if data.shape[0]:
            self.need(data.shape[0])
            self.put(<const char *>&data[0], data.shape[0])

    cdef int need(self, Py_ssize_t more) except -1 nogil:
        cdef Py_ssize_t capacity
        cdef char *grown
        if self.size + more <= self.capacity:
            return 0
        if self.exports:
            with gil:
                raise BufferError("the text cannot grow while a view of it is held")
        capacity = max(self.size + more, self.capacity + (self.capacity >> 1), 65536)
        grown = <char *>realloc(self.data, capacity)
        if grown == NULL:
            with gil:
                raise MemoryError
        self.data = grown
        self.capacity = capacity
        return 0

    cdef int put_object(self, object text) except -1:
        cdef bytes raw = text.encode("utf-8", "replace")
        self.need(len(raw))
        self.put(<const char *>raw, len(raw))
        return 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        if flags & 1:  # PyBUF_WRITABLE
            raise BufferError("read-only")
        self.shape[0] = self.size
        view.buf = self.data if self.data != NULL else <char *>HEX   # pyarrow requires an address even for 0 bytes
        view.obj = self
        view.len = self.size
        view.readonly = 1
        view.itemsize = 1
        view.format = b"B"
        view.ndim = 1
        view.shape = self.shape
        view.strides = NULL
        view.suboffsets = NULL
        view.internal = NULL
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1

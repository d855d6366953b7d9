"""Named tuples that are made as fast as plain ones.

The constructor of a `typing.NamedTuple` is a Python function, and a task makes some ten such tuples for each record.
`quick` gives the class a constructor in C, by the slot in which Python's own types have theirs (tp_vectorcall). Calls
with keywords or a wrong number of arguments, and subclasses, go the old way.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

cdef extern from "Python.h":
    ctypedef object (*Constructor)(object cls, PyObject *const *given, size_t flags, PyObject *names)
    ctypedef struct Type "PyTypeObject":
        object (*tp_alloc)(Type *cls, Py_ssize_t items)
        Constructor tp_vectorcall
    Py_ssize_t PyVectorcall_NARGS(size_t flags)

cdef enum:
    CLASSES_MAX = 32

cdef struct Layout:
    PyObject *cls
    Py_ssize_t fields, required
    PyObject *defaults  # a tuple: those of the last fields

cdef Layout layouts[CLASSES_MAX]
cdef Py_ssize_t count_of_layouts = 0


def quick(type cls not None):
    """Return a named tuple's class; its instances are made faster from now on. A class too many stays as it is."""
    global count_of_layouts
    cdef tuple defaults = tuple(cls._field_defaults.values())
    if count_of_layouts == CLASSES_MAX:
        return cls
    Py_INCREF(cls)
    Py_INCREF(defaults)
    cdef Py_ssize_t fields = len(cls._fields)
    layouts[count_of_layouts] = Layout(<PyObject *>cls, fields, fields - len(defaults), <PyObject *>defaults)
    count_of_layouts += 1
    (<Type *>cls).tp_vectorcall = make
    return cls


cdef object make(object cls, PyObject *const *given, size_t flags, PyObject *names):
    cdef const Layout *layout = layouts
    cdef const Layout *end = layouts + count_of_layouts
    cdef Py_ssize_t i, count = PyVectorcall_NARGS(flags)
    cdef object made, each
    while layout < end and layout.cls != <PyObject *>cls:
        layout += 1
    if layout == end:
        return make_slowly(cls, given, count, names)
    if names != NULL or count < layout.required or count > layout.fields:
        return make_slowly(cls, given, count, names)
    made = (<Type *>cls).tp_alloc(<Type *>cls, layout.fields)
    for i in range(layout.fields):
        each = <object>given[i] if i < count else (<tuple>layout.defaults)[i - layout.required]
        Py_INCREF(each)
        PyTuple_SET_ITEM(made, i, each)
    return made


cdef object make_slowly(object cls, PyObject *const *given, Py_ssize_t count, PyObject *names):
    cdef Py_ssize_t i
    cdef tuple keywords = () if names == NULL else <tuple>names
    more = {keywords[i]: <object>given[count + i] for i in range(len(keywords))}
    return cls.__new__(cls, *[<object>given[i] for i in range(count)], **more)

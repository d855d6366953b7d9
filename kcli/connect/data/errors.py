"""The exceptions of Connect's data, converters and transforms, each with the name of its class in Java."""

from __future__ import annotations

from kcli.errors import KcliError

CLASS_CAST = "java.lang.ClassCastException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
NULL_POINTER = "java.lang.NullPointerException"


class ConnectError(KcliError):
    """Base of the exceptions that Connect raises while it converts and transforms a record."""

    java_class = "org.apache.kafka.connect.errors.ConnectException"


class DataError(ConnectError):
    """Data that a schema, a converter or a transform does not allow."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class SchemaBuilderError(DataError):
    """A schema that cannot be."""

    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class SerializationError(ConnectError):
    """A serializer that cannot be, or cannot serialize a value."""

    java_class = "org.apache.kafka.common.errors.SerializationException"


class RetriableError(ConnectError):
    """An error after which the operation may be tried again."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class JavaError(ConnectError):
    """An exception of Java's own, which Kafka's classes let through."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


def class_of(error: BaseException) -> str:
    """Return the name of the class of an exception, as a dead letter has it: Java's, or that of Python's class."""
    if isinstance(error, ConnectError):
        return error.java_class
    return f"{type(error).__module__}.{type(error).__qualname__}"

"""The errors of parsing and building: one tree under FormatError, each with the byte position of the fault.

FormatError
  Truncated      the bytes end before the value does
  BadMagic       a marker byte or word is not the one that this format begins with
  BadChecksum    stored and computed checksum differ
  BadLength      a length is negative, too small, or larger than the buffer or struct around it
  BadVarint      a variable-length integer is longer than its type allows
  BadCount       a count differs from the number of items that follow, or is impossible
  BadCodec       an unknown compression codec id
  BadCompression a payload that its codec does not decompress, or bytes behind its end
  BytesBehind    a BadCompression: bytes behind the end, which Java's streams, and so Kafka, ignore
  LimitExceeded  a value larger than the caller allows, sound or not
  BadValue       a value that the format does not allow, for a reason that no other error names
  BadNumber      a BadValue: text where a number must be
  UnknownVersion a version that this format does not have
  UnknownType    a type id that this format does not have
"""

from typing import Self


class FormatError(Exception):
    """Bytes that violate their format.

    `reason` is one line of text; `position` is the byte at which the faulty field, batch or entry begins, counted from
    the start of the buffer that was parsed (in an error that `at` returned: of the outer buffer), or None if no single
    byte can be named.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return self.reason if self.position is None else f"{self.reason} (byte {self.position})"

    def at(self, base: int) -> Self:
        """Return the same error with its position in an outer buffer, in which the parsed buffer begins at byte `base`.
        The position is `base` if the error has none."""
        return type(self)(self.reason, base if self.position is None else base + self.position)


class Truncated(FormatError):
    """The bytes end before the value does."""


class BadMagic(FormatError):
    """A marker byte or word is not the one that this format begins with."""


class BadChecksum(FormatError):
    """The stored and the computed checksum differ."""


class BadLength(FormatError):
    """A length is negative, too small, or larger than the buffer or struct around it."""


class BadVarint(FormatError):
    """A variable-length integer is longer than its type allows."""


class BadCount(FormatError):
    """A count differs from the number of items that follow, or is impossible."""


class BadCodec(FormatError):
    """An unknown compression codec id."""


class BadCompression(FormatError):
    """A payload that its codec does not decompress, or bytes behind the end of its stream."""


class BytesBehind(BadCompression):
    """A compressed payload is whole, but bytes follow its end; Java's streams ignore these bytes."""


class LimitExceeded(FormatError):
    """A value larger than the caller allows, sound or not."""


class BadValue(FormatError):
    """A value that the format does not allow, for a reason that no other error names."""


class BadNumber(BadValue):
    """Text where a number must be."""


class UnknownVersion(FormatError):
    """A version that this format does not have."""


class UnknownType(FormatError):
    """A type id that this format does not have."""

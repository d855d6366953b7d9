"""Every way in which bytes can fail to be what a format says: one small tree, each error with its byte position.

FormatError
  Truncated      the bytes end before the value does
  BadMagic       a marker byte or word is not the one that this format begins with
  BadChecksum    stored and computed checksum differ
  BadLength      a length is negative, too small or too large for what holds it
  BadVarint      a variable-length integer is longer than its type allows
  BadCount       a count differs from what is there, or cannot be
  BadCodec       an unknown compression codec id
  BadCompression a payload that its codec does not decompress, or bytes behind its end
  LimitExceeded  sound perhaps, but larger than the caller allows
  BadValue       anything else that is not as the format says
  BadNumber      a BadValue: text where a number must be
  UnknownVersion a version that this format does not have
  UnknownType    a type id that this format does not have
"""

from typing import Self


class FormatError(Exception):
    """Bytes that are not what their format says.

    `reason` is one line for people; `position` is the byte at which the faulty thing begins, counted from the start of
    the buffer that was parsed (after `at`: of the file), or None where no single byte can be named.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return self.reason if self.position is None else f"{self.reason} (byte {self.position})"

    def at(self, base: int) -> Self:
        """Return the same error seen from an outer buffer in which this one begins at byte `base`."""
        return type(self)(self.reason, base if self.position is None else base + self.position)


class Truncated(FormatError):
    """The bytes end before the value does."""


class BadMagic(FormatError):
    """A marker byte or word is not the one that this format begins with."""


class BadChecksum(FormatError):
    """The stored and the computed checksum differ."""


class BadLength(FormatError):
    """A length is negative, too small or too large for what holds it."""


class BadVarint(FormatError):
    """A variable-length integer is longer than its type allows."""


class BadCount(FormatError):
    """A count differs from what is there, or cannot be."""


class BadCodec(FormatError):
    """An unknown compression codec id."""


class BadCompression(FormatError):
    """A payload that its codec does not decompress, or bytes behind the end of its stream."""


class LimitExceeded(FormatError):
    """Larger than the caller allows, sound or not."""


class BadValue(FormatError):
    """Anything else that is not as the format says."""


class BadNumber(BadValue):
    """Text where a number must be."""


class UnknownVersion(FormatError):
    """A version that this format does not have."""


class UnknownType(FormatError):
    """A type id that this format does not have."""

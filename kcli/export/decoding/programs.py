"""The base class of decoders that run a program: a description of a type and its schemas for the compiled code of
formats.kernels.payload. Each process makes the program from the pickled type and schemas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from formats.kernels.payload import payloads as kernel
from kcli.export.decoding.shapes import Node, run, tree
from kcli.export.decoding.unify import settle


class Program(Protocol):
    """The interface of formats.kernels.payload's decoders, each compiled for one schema or JSON type."""

    def decode(self, payloads: kernel.Payloads) -> kernel.Decoded:
        """Decode payloads to columns, and to faults for the payloads that do not decode."""
        ...


class ProgramDecoder(ABC):
    """A decoder that runs a program. Its pickle has the type and the schemas, but not the program made from them.

    open_type: the type, with null types for what nothing is known of; in `type` these are strings.
    """

    def __init__(self, found: pa.DataType) -> None:
        self.type, self.open_type = settle(found), settle(found, keeps_nulls=True)

    @cached_property
    def root(self) -> Node:
        """The tree of the type's columns."""
        return tree(self.type)

    @cached_property
    def program(self) -> Program:
        """The program, made at its first use in each process."""
        return self.make_program()

    @abstractmethod
    def make_program(self) -> Program:
        """Return a new program, made from the pickled attributes. Raises SchemaError."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"root", "program"}}

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of payloads: (values, reasons), as Decoder.decode."""
        return run(self.program.decode, self.root, payloads)

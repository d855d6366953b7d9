"""Decoders that are a program of the kernel: made from a type and schemas, again in each process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from formats.kernels import payload as kernel
from kcli.export.decoding.shapes import Node, run, tree


class Program(Protocol):
    """What the kernel's programs have in common."""

    def decode(self, payloads: kernel.Payloads) -> kernel.Decoded:
        """Columns and faults."""
        ...


class ProgramDecoder(ABC):
    """A decoder whose program does not travel: a pickle has only what it is made of."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind

    @cached_property
    def root(self) -> Node:
        """The type's columns."""
        return tree(self.type)

    @cached_property
    def program(self) -> Program:
        """Made where it is used."""
        return self.make_program()

    @abstractmethod
    def make_program(self) -> Program:
        """Make it of what a pickle has. Raises SchemaError."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"root", "program"}}

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of payloads."""
        return run(self.program.decode, self.root, payloads)

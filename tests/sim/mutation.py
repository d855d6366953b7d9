"""Does a simulation notice that a check is missing? The check is removed from the code, and seeds are run until one
fails.

A mutation names a function, a piece of its source, and the text that replaces it. While the mutation lasts, the
function's code is the changed one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from types import FunctionType

from tests.sim.seeds import Simulate


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of the code. function: module:name, or module:Class.name."""

    what: str
    function: str
    old: str
    new: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Change the function's code during the `with`."""
        module_name, _, path = self.function.partition(":")
        module = import_module(module_name)
        owner = module
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        function = _function(getattr(owner, name))
        assert isinstance(function, FunctionType), self.function
        source = dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.function} has not {self.old!r} once"
        namespace = dict(vars(module))
        mutant = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        exec(compile(mutant, name, "exec"), namespace)
        other = _function(namespace[name])
        assert isinstance(other, FunctionType), self.function
        code, function.__code__ = function.__code__, other.__code__
        try:
            yield
        finally:
            function.__code__ = code


def _function(found: object) -> object:
    """The function behind a property."""
    return found.fget if isinstance(found, property) else found


def found_after(mutation: Mutation, seeds: range, simulate: Simulate) -> tuple[int, Exception] | None:
    """Return the first seed that fails with the mutation, and its error; None if all hold."""
    with mutation.applied():
        for seed in seeds:
            error = simulate(seed)
            if error is not None:
                return seed, error
    return None


def report(mutations: Sequence[Mutation], simulate: Simulate, seeds_max: int) -> int:
    """Print the seed that finds each mutation, among as many seeds as the command line says. Returns how many are not
    found."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else seeds_max)
    missed = 0
    for mutation in mutations:
        found = found_after(mutation, seeds, simulate)
        if found is None:
            missed += 1
            print(f"NOT FOUND with {len(seeds)} seeds: {mutation.what}", flush=True)
        else:
            print(f"seed {found[0]}: {mutation.what}\n    {found[1]!r:.200}", flush=True)
    return missed

#!/usr/bin/env python3
"""Rings of imports: sets of modules each of which imports every other one, directly or through the rest.

    .ci/rings.py [--most FILES] [--edges] [PACKAGE ...]

Every import counts: at the top of a file, inside a function, under `if TYPE_CHECKING:`. Who reads one file of a ring
must read all of them, whenever the imports run. Prints each ring of more than one file, the largest first; exits 1
where one has more than FILES. --edges lists the imports inside each ring, too.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGES = ("formats", "kcli", "pyspark_kafka_log")
FILES_MAX = 4

Graph = Mapping[str, frozenset[str]]
"""Module -> the modules that it imports."""


def modules(root: Path, packages: tuple[str, ...]) -> dict[str, Path]:
    """Every module of the packages below `root` by its dotted name; of a compiled module the stub (.pyi) is read."""
    found = {}
    for package in packages:
        single = root / f"{package}.py"
        paths = [single] if single.exists() else sorted((root / package).rglob("*.py*"))
        for path in paths:
            if path.suffix in (".py", ".pyi"):
                *parents, last = path.relative_to(root).with_suffix("").parts
                found[".".join(parents if last == "__init__" else [*parents, last])] = path
    return found


def imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The known modules that a file imports. `from a import b` imports a.b where that is a module, else a.

    Raises SyntaxError.
    """
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                found = next((each for each in (f"{module}.{alias.name}", module) if each in known), None)
                if found is not None:
                    yield found


def graph_of(root: Path, packages: tuple[str, ...]) -> Graph:
    """Who imports whom among the modules of the packages."""
    known = modules(root, packages)
    return {name: frozenset(imports(name, path, known)) - {name} for name, path in known.items()}


def rings(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one module, the largest first (Tarjan 1972, without recursion)."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for root in sorted(graph):
        walk: list[tuple[str, Iterator[str]]] = [] if root in index else [_enter(root, graph, index, low, stack)]
        while walk:
            module, left = walk[-1]
            for imported in left:
                if imported not in index:
                    walk.append(_enter(imported, graph, index, low, stack))
                    break
                if imported in stack:
                    low[module] = min(low[module], index[imported])
            else:
                walk.pop()
                if walk:
                    above = walk[-1][0]
                    low[above] = min(low[above], low[module])
                if low[module] == index[module]:
                    at = stack.index(module)
                    found.append(sorted(stack[at:]))
                    del stack[at:]
    return sorted((ring for ring in found if len(ring) > 1), key=lambda ring: (-len(ring), ring))


def _enter(
    module: str, graph: Graph, index: dict[str, int], low: dict[str, int], stack: list[str]
) -> tuple[str, Iterator[str]]:
    """Give the module its number. Returns it with its imports, none of which was followed yet."""
    index[module] = low[module] = len(index)
    stack.append(module)
    return module, iter(sorted(graph[module]))


def main() -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(description="Rings of imports, type-only and lazy ones included.")
    parser.add_argument("packages", nargs="*", default=PACKAGES, metavar="PACKAGE")
    parser.add_argument("--most", type=int, default=FILES_MAX, metavar="FILES", help="the largest ring allowed")
    parser.add_argument("--edges", action="store_true", help="list the imports inside each ring")
    options = parser.parse_args()
    graph = graph_of(Path(__file__).resolve().parent.parent, tuple(options.packages))
    found = rings(graph)
    for ring in found:
        print(f"ring of {len(ring)} files")
        for module in ring:
            print(f"  {module}")
            for imported in sorted(graph[module] & set(ring)) if options.edges else ():
                print(f"    imports {imported}")
    largest = max(map(len, found), default=0)
    print(f"{len(graph)} files, {len(found)} rings, {largest} files in the largest, at most {options.most} are allowed")
    return int(largest > options.most)


if __name__ == "__main__":
    sys.exit(main())

"""Authorization without one of its checks: would a test notice that a handler has lost the check?

A check is a call of one of Authorization's methods in kcli/broker/api, or in a module to which a handler leaves it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kcli.broker
from kcli.broker.authorization import EVERYTHING, Authorization
from kcli.broker.wire.call import Call
from kcli.security.acls import CLUSTER_NAME, Operation, ResourceType

ROOT = Path(kcli.broker.__file__).parent
METHODS = frozenset(("allows", "allows_any", "among", "operations", "require"))
OF_HANDLERS = {"config_admin": ("alter_configs", "incremental_alter_configs")}
"""Modules with checks beside the handlers, and the APIs whose checks they make."""


class Check(NamedTuple):
    """A check, identified by its place in the source. apis: the APIs that make it."""

    path: Path
    first_line: int
    last_line: int
    text: str
    apis: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path.name}:{self.first_line} {self.text}"


def checks() -> list[Check]:
    """All checks that the source has."""
    paths = [*(ROOT / "api").glob("*.py"), ROOT / "controller/config_admin.py"]
    return [each for path in sorted(paths) for each in _checks_of(path)]


def _checks_of(path: Path) -> Iterator[Check]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in METHODS and _is_access(owner):
                apis = OF_HANDLERS.get(path.stem, (path.stem,))
                yield Check(path, node.lineno, node.end_lineno or 0, ast.unparse(node), apis)


def _is_access(owner: ast.expr) -> bool:
    return ast.unparse(owner).rpartition(".")[2] in ("access", "_access")


class Blind(Authorization):
    """An Authorization that allows everything at the check `without`."""

    without: Check | None = None

    def _is_blind(self) -> bool:
        frame = sys._getframe(2)
        missing = self.without
        return (
            missing is not None
            and frame.f_code.co_filename == str(missing.path)
            and missing.first_line <= frame.f_lineno <= missing.last_line
        )

    def allows(
        self, call: Call, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME, **audit: Any
    ) -> bool:
        return self._is_blind() or super().allows(call, operation, resource_type, name, **audit)

    def allows_any(self, call: Call, operation: Operation, resource_type: ResourceType) -> bool:
        return self._is_blind() or super().allows_any(call, operation, resource_type)

    def among(
        self, call: Call, operation: Operation, resource_type: ResourceType, *counts: Any, **audit: Any
    ) -> Container[str]:
        return EVERYTHING if self._is_blind() else super().among(call, operation, resource_type, *counts, **audit)

    def require(self, call: Call, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        if not self._is_blind():
            super().require(call, operation, resource_type, name)

    def operations(self, call: Call, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        if self._is_blind():
            return Authorization(None).operations(call, resource_type, name)
        return super().operations(call, resource_type, name)


def unnoticed(asked: Any, access: Blind, cases: Iterator[tuple[Any, list[Any]]]) -> list[Check]:
    """Return the checks without which every response is the expected one.

    asked: grants rights and asks (tests.broker.security.test_access.Asked). cases: rights, and for each of them
    questions with the expected responses.
    """
    left = checks()
    for granted, questions in cases:
        for check in list(left):
            mine = [(question, expected) for question, expected in questions if question[0] in check.apis]
            for question, expected in mine:
                ids = asked.grant(granted)
                access.without = check
                try:
                    found = asked.answer(question, ids)
                finally:
                    access.without = None
                if found != expected:
                    left.remove(check)
                    break
    return left

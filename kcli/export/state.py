"""STATE of incremental exports: up to which offset each partition is in the directory.

    kcli_state   1, the version of this layout
    export       the manifest's id: which directory this belongs to
    increments   how many commits made both; the manifest has the same number
    next         topic -> partition -> the first offset that is not in the directory yet

It is replaced in the same commit as the manifest (commit.py), so a run that is killed changes neither or, by the next
run at the latest, both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kcli.errors import UnreadableInput

VERSION = 1


@dataclass(frozen=True, slots=True)
class State:
    """How far a directory is."""

    export: str
    increments: int
    next: Mapping[tuple[str, int], int]

    def to_json(self) -> bytes:
        """The file."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.next.items()):
            offsets.setdefault(topic, {})[str(partition)] = offset
        value = {"kcli_state": VERSION, "export": self.export, "increments": self.increments, "next": offsets}
        return json.dumps(value, indent=1).encode()


def read_state(path: Path) -> State | None:
    """The state, None where there is none yet. Raises UnreadableInput."""
    try:
        value = json.loads(path.read_bytes())
        if value["kcli_state"] != VERSION:
            raise UnreadableInput(str(path), "a state of another version of kcli")
        offsets = {
            (topic, int(partition)): int(offset)
            for topic, each in value["next"].items()
            for partition, offset in each.items()
        }
        return State(value["export"], value["increments"], offsets)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInput(str(path), error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableInput(str(path), f"not the state of an incremental export: {error!r}") from error

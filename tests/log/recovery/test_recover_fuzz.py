"""Damage of any kind: recovery ends with a result or a typed error, and what it leaves it would leave as it is.

But for leader epochs: Kafka takes those of batches only above the last one in the checkpoint, and afterwards drops that
one where it began in what was cut. The next start then finds the epoch of a batch that the first one passed over. And
an end that Kafka does not see, behind batches whose offsets go back, it does not see at the next start either.
"""

import shutil
import tempfile
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.crc import crc32c
from kcli.errors import KcliError
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.recovery.loader import EventKind
from kcli.log.recovery.plan import PartitionPlan
from kcli.log.recovery.run import Recovery
from tests.conftest import SAMPLES
from tests.log.crash_disk import CrashDisk

PARTITIONS = sorted([*(SAMPLES / "good").iterdir(), *(SAMPLES / "broken").iterdir()])
DIRECTORIES = ("t-0", "t-0.0123456789abcdef0123456789abcdef-future", "t-0.0123-delete", "__cluster_metadata-0")
NAMES = (".swap", ".cleaned", ".deleted", ".tmp")
ODD_NAMES = ("x.log", "-5.log", "7.snapshot", "999.log", f"{999:020}.log", "99999999999999999999.log", "a.snapshot")
HEADER = (0, 7, 12, 15, 16, 21, 22, 23, 26, 27, 34, 35, 42, 43, 50, 51, 52, 53, 56, 57, 60, 61, 62, 63, 64, 66, 68, 70)


def spoil(path: Path, random: Random) -> None:
    """Change a file, or its name."""
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data) + 1)
    how = random.randrange(6)
    if how == 0 and at < len(data):
        data[at] = random.randrange(256)
    elif how == 1:
        del data[at:]
    elif how == 2:
        data += random.randbytes(random.randrange(200))
    elif how == 3:
        data[at:at] = data[random.randrange(len(data) + 1) :][:500]
    elif how == 4:
        data = bytearray(len(data))
    else:
        in_states = [] if path.suffix in NAMES else [path.name + state for state in NAMES]  # no .swap.swap: two starts
        path.rename(path.with_name(random.choice([*in_states, *ODD_NAMES])))
        return
    path.write_bytes(data)


def spoil_headers(log: Path, random: Random) -> None:
    """Change headers and first bytes of batches, and correct their CRCs."""
    data, at = bytearray(log.read_bytes()), 0
    while at + 61 <= len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if end < at + 61 or end > len(data):
            break
        if random.random() < 0.1 and data[at + 16] >= 2:
            place = at + random.choice(HEADER)
            if place < end:
                data[place] = random.choice([0, 1, 127, 128, 255])
            data[at + 17 : at + 21] = crc32c(data[at + 21 : end]).to_bytes(4, "big")
        at = end
    log.write_bytes(data)


def losses(plans: list[PartitionPlan]) -> set[EventKind]:
    return {event.kind for each in plans for event in each.events if event.is_loss}


@given(st.integers(0, 2**32 - 1))
def test_any_damage(seed: int) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as root:
        logs = Path(root, "logs")
        partition = logs / random.choice(DIRECTORIES)
        shutil.copytree(random.choice(PARTITIONS), partition)
        files = sorted(partition.iterdir())
        for path in random.sample(files, min(len(files), random.randrange(3))):
            spoil(path, random)
        for log in partition.glob("*.log"):
            spoil_headers(log, random)
        clean, salvage = random.random() < 0.4, random.random() < 0.4
        try:
            first = Recovery(logs, 0, clean=clean, salvage=salvage, threads=1, disk=CrashDisk())
            done = list(first.in_place("backup"))
            if any(each.refused for each in done) or clean:
                return
            again = list(Recovery(logs, 0, clean=False, threads=1).plans())
        except KcliError:
            return
        assert not any(each.refused for each in again)
        assert losses(again) <= losses(done) & {EventKind.END_HIDDEN}
        changed = {name for each in again for name in [*each.view.changed(), *each.view.removed()]}
        # A log whose name does not have 20 digits makes each start create an empty segment.
        is_odd = any(event.kind is EventKind.PASSED_OVER for each in again for event in each.events)
        assert salvage or is_odd or changed <= {LEADER_EPOCHS}

"""Make the samples from the golden data, and their README from the table below.

    python samples/make_samples.py            write samples/good, samples/broken and samples/README.md
    python samples/make_samples.py --check    only say what differs; exit 1 if anything does

The bytes are Kafka's: good samples are copies of partition directories, broken ones are copies that were damaged on
purpose (tests/golden/corrupt/cases.jsonl says at which byte). Each directory is named as Kafka names it,
<topic>-<partition>, and the topic of a broken one says what is wrong.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent
GOLDEN = SAMPLES.parent / "tests" / "golden"

# partition directory below golden -> what it is
GOOD = {
    "codecs/data/java-none-0": "a plain topic in four segments: keys, values, headers, two leader epochs",
    "codecs/data/java-gzip-0": "the same records in gzip batches",
    "codecs/data/java-snappy-0": "the same records in snappy batches (the Java client's xerial framing)",
    "codecs/data/rdk-lz4-0": "lz4 batches of librdkafka",
    "codecs/data/java-zstd-0": "the same records in zstd batches",
    "codecs/data/mixed-0": "a different codec and client from batch to batch, idempotent producers among them",
    "txn/data/t-txn-0": "transactions of several producers, committed and aborted, with transaction indexes",
    "txn/data/__transaction_state-1": "the transaction coordinator's log",
    "compact/after/c-plain-0": "a compacted topic after the cleaner: gaps in the offsets, all of them legal",
    "compact/after/c-tomb-short-0": "a compacted topic with tombstones and their delete horizon",
    "groups/data/__consumer_offsets-0": "the group coordinator's log: offset commits and group metadata",
    "groups/data/__share_group_state-1": "the share coordinator's log",
    "tiered/data/__remote_log_metadata-0": "what a broker knows about segments in tiered storage",
    "kraft/controller-100/__cluster_metadata-0": "a KRaft controller's metadata log, with its snapshots (.checkpoint)",
    "legacy/data/v0-gzip-0": "message format 0 (Kafka 0.8): no timestamps, records wrapped in gzip messages",
    "legacy/data/v1-none-0": "message format 1 (Kafka 0.10): timestamps, not compressed",
    "legacy/data/v0-v1-v2-mixed-0": "one log with message formats 0, 1 and 2, as upgrades leave it",
}

# case in golden/corrupt -> what an operator sees in it
BROKEN = {
    "crc-field-flip": "one bit of a batch's CRC is flipped; every other batch is sound",
    "payload-flip-zstd": "one bit of a compressed batch is flipped: the CRC shows it before the codec has to",
    "truncated-mid-batch": "the last batch is cut off, as after a crash or a copy that stopped",
    "zero-tail-4096": "4,096 zeros behind the last batch, as a file system leaves them after a power cut",
    "zero-page-in-middle": "zeros in place of two batches, with sound batches behind them",
    "length-past-end": "a batch says that it is longer than the file",
    "magic-3": "a batch of a message format that does not exist; Kafka's recovery keeps it",
    "codec-6": "a batch with an unknown codec and a right CRC; Kafka's recovery keeps it, no consumer can read it",
    "record-count-plus-1": "a batch that promises one record more than it holds, with a right CRC",
    "compressed-garbage-gzip": "random bytes in place of the compressed records, with a right CRC",
    "bomb-zstd-1gib": "a zip bomb: 32 KB that decompress to 1 GiB",
    "batches-swapped": "two neighbouring batches have changed places",
    "batch-duplicated": "the same batch twice in a row",
    "index-position-past-end": "the offset index points past the end of the log",
    "timeindex-not-monotonic": "the last timestamp of the time index goes back",
    "txnindex-missing-entry": "an aborted transaction is missing: read_committed would return its records",
    "snapshot-bad-crc": "a producer snapshot whose CRC is wrong",
    "epoch-checkpoint-garbage": "a leader-epoch-checkpoint full of garbage: the broker does not start",
    "leftover-swap": "what a cleaning leaves that a crash interrupted before its last rename",
}


def damage(case: dict[str, Any]) -> str:
    """Where the fault is, and what Kafka's own recovery makes of the damaged file."""
    file, byte = case["damaged"]["file"], case["damaged"].get("batch_position")
    if byte is None:
        byte = case["damaged"].get("byte")
    place = f"`{file}`" + (f" byte {byte:,}" if byte is not None else "")
    unclean = case["kafka_broker"]["unclean"]
    if unclean["broker"] != "starts":
        return f"{place} | does not start"
    data, kept = (GOLDEN / "corrupt/cases" / case["id"] / file).read_bytes(), unclean["files"].get(file)
    if kept is None:
        return f"{place} | puts it in the place of the segment"
    if kept["sha256"] == hashlib.sha256(data).hexdigest():
        return f"{place} | keeps it"
    return f"{place} | " + (f"cuts it to {kept['size']:,} bytes" if file.endswith(".log") else "writes it anew")


def contents() -> dict[str, bytes]:
    """Every file of the samples: path below samples/ -> bytes."""
    cases = {}
    for line in (GOLDEN / "corrupt/cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        cases[case["id"]] = case
    sources = {f"good/{Path(source).name}": GOLDEN / source for source in GOOD}
    sources |= {f"broken/{name}-0": GOLDEN / "corrupt/cases" / name for name in BROKEN}
    files = {
        f"{target}/{path.name}": path.read_bytes()
        for target, source in sources.items()
        for path in sorted(source.iterdir())
    }
    good = "\n".join(f"| `good/{Path(source).name}` | {text} |" for source, text in GOOD.items())
    broken = "\n".join(f"| `broken/{name}-0` | {text} | {damage(cases[name])} |" for name, text in BROKEN.items())
    files["README.md"] = README.format(good=good, broken=broken).encode()
    return files


README = """# Samples

Small logs written by Apache Kafka 4.3.0 (message formats 0 and 1 by its older clients), to try kcli on:

    kcli dump-segment samples/good/java-zstd-0/00000000000000000000.log
    kcli verify samples/broken/crc-field-flip-0
    make demo

`python samples/make_samples.py` makes this directory, this file included, from the data of the tests.

## Good: nothing to report

| partition | what it is |
|---|---|
{good}

## Broken: one fault each

Named by what is wrong. *Kafka* is what a broker does with the file when it starts after an unclean shutdown.

| partition | what is wrong | where | Kafka |
|---|---|---|---|
{broken}
"""


def main(check: bool) -> int:
    wanted = contents()
    found = {
        path.relative_to(SAMPLES).as_posix()
        for path in [SAMPLES / "README.md", *SAMPLES.glob("*/*/*")]
        if path.is_file() and "__pycache__" not in path.parts
    }
    different = [name for name in wanted if name not in found or (SAMPLES / name).read_bytes() != wanted[name]]
    surplus = sorted(found - wanted.keys())
    if check:
        for name in [*different, *surplus]:
            print(f"not as make_samples.py makes it: samples/{name}")
        return 1 if different or surplus else 0
    for name in surplus:
        (SAMPLES / name).unlink()
    for name in different:
        (SAMPLES / name).parent.mkdir(parents=True, exist_ok=True)
        (SAMPLES / name).write_bytes(wanted[name])
    print(f"{len(wanted)} files, {sum(map(len, wanted.values())):,} bytes; {len(different) + len(surplus)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(check=sys.argv[1:] == ["--check"]))

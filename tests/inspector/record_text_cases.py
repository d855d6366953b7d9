"""Odd records for kafka-dump-log's decoders, and what Kafka's own tool prints of them.

`record_text/<decoder>.jsonl.gz`: offset, key, value (base64 or null) and what was printed behind `headerKeys: []`, null
where that record ended the tool. Made by

    python -m tests.inspector.record_text_cases one 300 tests/inspector/record_text tests/interop/kafka dump

(a seed, how many a decoder, where to, and kafka-dump-log 4.3). Records are made from the schemas, in every version,
then most are damaged: cut, bytes changed, bytes behind them, other types and versions. Control records go one to a file
each, since a bad one ends the tool.
"""

import base64
import gzip
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

from formats.internal_topic import DecodedRecord, encode, record_types
from formats.message import build, schema
from tests.formats.message_values import any_value

DATA = Path(__file__).parent / "record_text"
TOPICS = {
    "offsets": "__consumer_offsets",
    "transaction-log": "__transaction_state",
    "share-group-state": "__share_group_state",
    "cluster-metadata": "__cluster_metadata",
    "remote-log-metadata": "__remote_log_metadata",
}
Case = tuple[bytes | None, bytes | None]


def any_record(rng: Random, topic: str) -> Case:
    """Return a record of an internal topic as Kafka would write it, sometimes damaged."""
    types = record_types(topic)
    key_type = rng.choice(list(types))
    key_schema, value_schema = types[key_type]
    version = rng.randint(value_schema.versions.low, value_schema.versions.high)
    value = any_value(rng, value_schema, version)
    if value_schema.name == "GroupMetadataValue":
        _consumer_group(rng, value)
    is_framed = key_schema is value_schema
    key, raw = encode(
        topic,
        DecodedRecord(
            key_type=key_type,
            key_name=None if is_framed else key_schema.name,
            key=None if is_framed else any_value(rng, key_schema, 0),
            value_version=version,
            value_name=value_schema.name,
            value=None if not is_framed and rng.random() < 0.05 else value,
        ),
    )
    if rng.random() < 0.5:
        raw = _damaged(rng, raw)
    if key is not None and rng.random() < 0.2:
        key = _damaged(rng, key) or b""
    return key, raw


def _consumer_group(rng: Random, value: dict[str, object]) -> None:
    value["protocolType"] = rng.choice(("consumer", "consumer", "connect", ""))
    members = value["members"]
    assert isinstance(members, list)
    for member in members:
        for field, name in (
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ):
            version = rng.randint(0, 3)
            raw = struct.pack(">h", version) + build(name, version, any_value(rng, schema(name), version))
            member[field] = raw if rng.random() < 0.6 else _damaged(rng, raw) or b""


def _damaged(rng: Random, raw: bytes | None) -> bytes | None:
    if not raw:
        return raw
    data = bytearray(raw)
    match rng.randrange(7):
        case 0:
            return bytes(data[: rng.randrange(len(data))])
        case 1 | 2:
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        case 3:
            data[rng.randrange(min(4, len(data)))] = rng.choice((0, 1, 2, 3, 5, 9, 18, 30, 0x7F, 0x80, 0xFF))
        case 4:
            data += rng.randbytes(rng.randint(1, 3))
        case 5:
            at = rng.randrange(len(data))
            data[at:at] = rng.choice((b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff" * 5, b"\x80\x00"))
        case _:
            at = rng.randrange(len(data))
            del data[at : at + rng.randint(1, 4)]
    return bytes(data)


def odd_records(name: str) -> list[Case]:
    """Records that chance would hardly find."""
    if name.endswith("metadata"):
        raw = [
            None,
            b"",
            b"\0",
            b"\2",
            b"\xff\xff\xff\xff\x0f",
            b"\x80\x80\x04",
            b"\1",
            b"\1\x80",
            b"\1\x63\0",
            b"\1\0",
            b"\1\0\x7f",
            b"\1\x81\x80\x80\x80\x08\0",
            b"\1\x80\x80\x02\0",
            b"\1\x80\x80\x80\x80\x08\0",
            b"\1\0\xff\xff\xff\xff\xff\1",
        ]
        return [(None, value) for value in raw] + [(b"key", b"\1\x63\0")]
    keys = [b"", b"\0", b"\x7f\xff\0", b"\xff\xff", b"\0\x09", b"\0\x12\0", b"\0\0", b"\0\2\0\1a", b"\0\2\0\1ab"]
    return [(key, value) for key in keys for value in (None, b"", b"\0", b"\0\0", b"\x7f\xff", b"\xff\xff\0")]


def control_records() -> list[Case]:
    """Return control records of all types, valid and invalid; each may end Kafka's tool."""

    def voter(version: int, count: int) -> bytes:
        return build(
            "VotersRecord",
            0,
            {
                "version": version,
                "voters": [
                    {"voterId": n, "endpoints": [{"name": "C\u00e9", "host": "h", "port": 65535}]} for n in range(count)
                ],
            },
        )

    leader = [
        build(
            "LeaderChangeMessage", 0, {"version": version, "leaderId": 3, "voters": [{"voterId": 1}, {"voterId": -2}]}
        )
        for version in (0, 1, 2, -1)
    ]
    by_type: dict[int, list[bytes | None]] = {
        0: [b"\0\0\0\0\0\7", b"\0\1\xff\xff\xff\xff", b"\xff\xff\0\0\0\0", b"\0\0\0", b"", b"\0\0\0\0\0\7more", None],
        1: [b"\0\0\0\0\0\0", b"\x7f\xff\0\0\0\1"],
        2: [*leader, b"", leader[0][:-2], leader[0] + b"\0", None],
        3: [build("SnapshotHeaderRecord", 0, {"version": 7, "lastContainedLogTimestamp": -1}), b"\0"],
        4: [build("SnapshotFooterRecord", 0, {}), b"\0\0\1\x05\1\xaa", b"\0\0\1\x05\x02\xaa"],
        5: [build("KRaftVersionRecord", 0, {"kRaftVersion": 1}), b"\0\0"],
        6: [voter(0, 2), voter(0, 0), voter(1, 1), voter(5, 1), voter(0, 1)[:-1]],
        7: [b"", None],
        -1: [b"x"],
        32767: [b"x"],
    }
    cases: list[Case] = [
        (struct.pack(">hh", 0, type_id), value) for type_id, values in by_type.items() for value in values
    ]
    return cases + [
        (key, b"\0\0\0\0\0\7") for key in (None, b"", b"\0\0\0", b"\xff\xff\0\1", b"\0\5\0\1", b"\0\0\0\1more")
    ]


def segment(cases: list[Case], attributes: int = 0) -> bytes:
    """Return a segment with one batch of these records."""
    records = bytearray()
    for delta, (key, value) in enumerate(cases):
        body = b"\0\0" + _varint(delta) + _sized(key) + _sized(value) + b"\0"
        records += _varint(len(body)) + body
    head = struct.pack(">ibIhiqqqhii", 0, 2, 0, attributes, len(cases) - 1, 0, 0, -1, -1, -1, len(cases))
    return struct.pack(">qi", 0, len(head) + len(records)) + head + records


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*out, raw))


def printed(command: list[str], data: bytes, flag: str) -> list[str | None]:
    """Return what the tool prints behind the header keys of each record of a segment; None for one that ended the
    tool."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "00000000000000000000.log"
        path.write_bytes(data)
        run = subprocess.run([*command, flag, "--files", str(path)], capture_output=True, check=False)
    parts = re.split(
        r"^\| offset: \d+ CreateTime: 0 keySize: -?\d+ valueSize: -?\d+ sequence: -1 headerKeys: \[\]",
        run.stdout.decode(),
        flags=re.MULTILINE,
    )
    texts: list[str | None] = [part.removesuffix("\n") for part in parts[1:]]
    if run.returncode:
        texts[-1] = None
    return texts


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _save(path: Path, cases: list[Case], texts: list[str | None]) -> None:
    assert len(cases) == len(texts), (path, len(cases), len(texts))
    with gzip.GzipFile(path, "wb", mtime=0) as out:
        for offset, ((key, value), text) in enumerate(zip(cases, texts, strict=True)):
            line = {"offset": offset, "key": _encoded(key), "value": _encoded(value), "printed": text}
            out.write((json.dumps(line) + "\n").encode())


def main(seed: str, count: str, directory: str, *command: str) -> None:
    """Make all cases anew and record what the tool prints."""
    target = Path(directory)
    target.mkdir(exist_ok=True, parents=True)
    for name, topic in TOPICS.items():
        rng = Random(f"{seed} {name}")
        cases = [*odd_records(name), *(any_record(rng, topic) for _ in range(int(count)))]
        _save(target / f"{name}.jsonl.gz", cases, printed(list(command), segment(cases), f"--{name}-decoder"))
    control = control_records()
    texts = [printed(list(command), segment([case], attributes=0x20), "--print-data-log")[0] for case in control]
    _save(target / "control.jsonl.gz", control, texts)


if __name__ == "__main__":
    main(*sys.argv[1:])

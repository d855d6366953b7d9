"""The layout of Aiven's plugin: golden/aiven, which the plugin wrote of the segments of golden/tiered, read as the
golden tier itself is; damaged; and hostile."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.hashes import SHA3_512

from formats.compression import ZSTD, compress
from formats.errors import BadLength, BadValue
from formats.file_name import FileKind
from formats.segment_manifest import Encryption
from kcli.errors import UnreadableInput, UsageError
from kcli.tier.key_pairs import VARIABLE, KeyPairs, unwrap
from kcli.tier.local import LocalStore
from kcli.tier.opening import open_tier
from kcli.tier.plugin_layout import MANIFEST, parse_key, segment_name
from kcli.tier.plugin_store import PluginStore
from kcli.tier.store import DamagedObject, KeyMissing
from kcli.tier.tier import Tier
from tests.cli.run import Ended, kcli
from tests.conftest import GOLDEN, Json
from tests.tier.s3 import client, new_bucket
from tests.tier.stores import TIERED, changed

AIVEN = GOLDEN / "aiven"
KEY = AIVEN / "private.pem"
DATA, REMOTE = TIERED / "data", TIERED / "remote"
PAIR = f"key1={KEY}"
STORES = {"plain": "r-keep", "plain/cluster-a": "r-keep", "encrypted": "r-keep", "zstd": "r-short", "both": "r-short"}
"""The directories of golden/aiven, and a topic in each."""
SHORT = "r-short-KlEWaF5xTFCF8vBhf0Z2Xg/0"


def opened(path: Path | str) -> PluginStore:
    store = open_tier(str(path), key_pairs=KeyPairs({"key1": KEY}))
    assert isinstance(store, PluginStore)
    return store


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A copy of the compressed and encrypted store."""
    return Path(shutil.copytree(AIVEN / "both", tmp_path / "both"))


def an_object(store: Path, offset: int, suffix: str) -> Path:
    (found,) = store.glob(f"*{SHORT}/{offset:020}-*{suffix}")
    return found


def edit(manifest: Path, change: Callable[[Any], object]) -> None:
    found = json.loads(manifest.read_bytes())
    change(found)
    manifest.write_text(json.dumps(found), encoding="utf-8")


def verified(store: Path | str, *log_dir: Path) -> tuple[Ended, list[Json]]:
    """The findings of kcli tier verify, without notes."""
    ended = kcli(
        "tier", "verify", *log_dir, "--tier", store, "--key-pair", PAIR, "--topic", "r-short", "--format", "jsonl"
    )
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return ended, [each for each in found if each.get("severity") in ("error", "warning")]


# what the plugin wrote


@pytest.mark.parametrize("name", STORES)
def test_the_files_are_those_of_the_segments(name: str) -> None:
    """Each file of a segment has the name, the size and the bytes that it has in LocalTieredStorage."""
    store, golden = opened(AIVEN / name), LocalStore(REMOTE)
    listed = {each.name: each.size for each in store.list_objects()}
    topics = [f"{STORES[name]}-"] if STORES[name] == "r-keep" else [""]
    assert listed == {each.name: each.size for topic in topics for each in golden.list_objects(topic)}
    for file, size in listed.items():
        assert store.size(file) == size
        ours, kafkas = store.open(file), golden.open(file)
        try:
            one, other = bytearray(size), bytearray(size)
            assert ours.size() == size
            assert ours.read_at(0, memoryview(one)) == kafkas.read_at(0, memoryview(other)) == size
            assert one == other
        finally:
            ours.close()
            kafkas.close()
        assert bytes(store.read(file, size // 3, size // 2)) == other[size // 3 : size // 2]


@pytest.mark.parametrize("name", STORES)
def test_sound_beside_the_metadata(name: str) -> None:
    """What Kafka's metadata says of the segments is so, in each layout, and no object is an orphan."""
    topic = STORES[name]
    ended = kcli("tier", "verify", DATA, "--tier", AIVEN / name, "--key-pair", PAIR, "--topic", topic)
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout.startswith("sound in ")
    ended = kcli("tier", "orphans", DATA, "--tier", AIVEN / name, "--format", "jsonl")
    assert "tier-orphan" not in ended.stdout
    assert "tier-foreign-file" not in ended.stdout


@pytest.mark.parametrize("name", ["zstd", "both"])
@pytest.mark.parametrize("log_dir", [[], [DATA]], ids=["alone", "with local logs"])
def test_a_fetch_is_that_of_the_golden_tier(name: str, log_dir: list[Path], tmp_path: Path) -> None:
    for store, out in ((AIVEN / name, "ours"), (REMOTE, "golden")):
        given = ("--tier", store, "--key-pair", PAIR, "--topic", "r-short", "--out", tmp_path / out)
        ended = kcli("tier", "fetch", *log_dir, *given)
        assert (ended.status, ended.stderr) == (0, "")
    files = [path.relative_to(tmp_path / "golden") for path in (tmp_path / "golden").rglob("*") if path.is_file()]
    assert len(files) > 40
    assert {path.relative_to(tmp_path / "ours") for path in (tmp_path / "ours").rglob("*") if path.is_file()} == {
        *files
    }
    assert all((tmp_path / "ours" / each).read_bytes() == (tmp_path / "golden" / each).read_bytes() for each in files)


def test_a_list_needs_no_key() -> None:
    """Offsets, epochs and sizes are in the manifests; the objects are those that are there."""
    ended = kcli("tier", "list", "--tier", AIVEN / "both", "--topic", "r-short", "--format", "jsonl")
    assert (ended.status, ended.stderr) == (0, "")
    first, second = (json.loads(line) for line in ended.stdout.splitlines()[:2])
    assert (first["start_offset"], first["end_offset"], first["size"], first["state"]) == (0, 4, 769, None)
    assert second["leader_epochs"] == {"0": 5}
    stem = f"{SHORT}/00000000000000000005-Vx-P2JSwR3-v8HZOhqCuTw"
    assert {*second["objects"]} == {f"{stem}.rsm-manifest", f"{stem}.log", f"{stem}.indexes"}
    assert second["objects"][f"{stem}.log"] == (AIVEN / f"both/{stem}.log").stat().st_size
    table = kcli("tier", "list", DATA, "--tier", AIVEN / "zstd", "--topic", "r-short").stdout
    assert "COPY_SEGMENT_FINISHED" in table
    assert f"some{stem}.{{rsm-manifest,log,indexes}}" in table


# keys, and where they come from


def test_without_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (("verify",), ("fetch", "--topic", "r-short", "--out", tmp_path / "out")):
        ended = kcli("tier", *command, "--tier", AIVEN / "both")
        assert (ended.status, ended.stdout) == (2, "")
        assert "encrypted with key pair 'key1': give its private key with --key-pair ID=PRIVATE.pem" in ended.stderr
        assert ended.stderr.count("\n") == 1
    monkeypatch.setenv(VARIABLE, f"other=/none,{PAIR}")
    assert kcli("tier", "verify", "--tier", AIVEN / "both").status == 0
    assert kcli("verify", DATA, "--tier", AIVEN / "both").status == 0
    assert kcli("verify", AIVEN / "both").stdout.startswith("sound in ")  # its .log objects are no segments


def pem(key: Any, password: bytes | None = None) -> bytes:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    found: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    return found


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "No such file or directory"),
        (b"", "no private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "no private key in PEM"),
        (bytes(1 << 20), "more than such a file can have"),
        (pem(rsa.generate_private_key(65537, 2048), b"x"), "the private key has a password"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "no RSA key"),
    ],
    ids=["missing", "empty", "text", "large", "password", "curve"],
)
def test_a_key_that_is_none(data: bytes | None, text: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "key.pem").write_bytes(data)
    ended = kcli("tier", "verify", "--tier", AIVEN / "both", "--key-pair", f"key1={tmp_path / 'key.pem'}")
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"kcli: {tmp_path / 'key.pem'}: ")
    assert text in ended.stderr.replace("are more", "more")
    assert "c2VjcmV0" not in ended.stderr


def test_another_key(tmp_path: Path) -> None:
    """Each segment's manifest is named, with nothing of a key."""
    (tmp_path / "key.pem").write_bytes(pem(rsa.generate_private_key(65537, 2048)))
    out = kcli("tier", "verify", "--tier", AIVEN / "encrypted", "--key-pair", f"key1={tmp_path / 'key.pem'}")
    assert out.status == 1
    assert out.stdout.count("of key pair 'key1': the data key is not wrapped with this key pair, or is damaged") == 7


@pytest.mark.parametrize("text", ["key1", "=x", "key1=", " =x"])
def test_a_wrong_option(text: str) -> None:
    ended = kcli("tier", "list", "--tier", AIVEN / "both", "--key-pair", text)
    assert (ended.status, ended.stderr) == (2, "kcli: --key-pair: a key pair is ID=PRIVATE.pem\n")
    with pytest.raises(UsageError, match="two files"):
        KeyPairs.given(["a=1", "b=2", "a=3"])


def padded(key: bytes, size: int, seed: bytes) -> bytes:
    """OAEP of RFC 8017, 7.1.1, with SHA3-512."""
    label = hashlib.sha3_512().digest()
    block = label + bytes(size - len(key) - 2 * 64 - 2) + b"\x01" + key

    def masked(data: bytes, by: bytes) -> bytes:
        stream = b"".join(hashlib.sha3_512(by + i.to_bytes(4)).digest() for i in range(len(data) // 64 + 1))
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))

    block = masked(block, seed)
    return b"\0" + masked(seed, block) + block


@pytest.mark.parametrize("bits", [2048, 3072, 2056])
def test_data_keys(bits: int) -> None:
    """A key comes back from what this textbook OAEP makes of it; whatever is wrong with it, the error is the same."""
    private = rsa.generate_private_key(65537, bits)
    numbers, size = private.private_numbers(), (bits + 7) // 8
    n, e = numbers.public_numbers.n, numbers.public_numbers.e

    def wrapped(block: bytes) -> bytes:
        return pow(int.from_bytes(block), e, n).to_bytes(size)

    key, seed = bytes(range(32)), bytes(range(64))
    assert unwrap(numbers, wrapped(padded(key, size, seed))) == key
    with pytest.raises(BadLength, match="a data key of 16 bytes in place of 32"):
        unwrap(numbers, wrapped(padded(key[:16], size, seed)))
    sound, reasons = padded(key, size, seed), set()
    for at in (1, 40, 70, 130, size - 33, size - 1):
        broken = bytearray(sound)
        broken[at] ^= 1
        with pytest.raises(BadValue) as raised:
            unwrap(numbers, wrapped(bytes(broken)))
        reasons.add(raised.value.reason)
    assert reasons == {"the data key is not wrapped with this key pair, or is damaged"}
    with pytest.raises(BadLength):
        unwrap(numbers, bytes(size - 1))
    with pytest.raises(BadValue):
        unwrap(numbers, b"\xff" * size)


def test_cryptography_has_no_such_padding() -> None:
    """Once it has, the padding need not be taken off here."""
    private = serialization.load_pem_private_key(KEY.read_bytes(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    with pytest.raises(Exception, match="not supported"):
        private.decrypt(bytes(256), OAEP(MGF1(SHA3_512()), SHA3_512(), None))
    assert "x" in KeyPairs({"x": KEY})
    with pytest.raises(BadValue):
        KeyPairs({"x": KEY}).unwrap(Encryption("x", bytes(256), b""))


# damage: one line each, with object, byte and reason

LOST = "offsets 196..252 are lost, or some of them"


def test_damaged_objects(both: Path, tmp_path: Path) -> None:
    with changed(log := an_object(both, 172, ".log")) as data:
        data[2500] ^= 1
    cut = an_object(both, 90, ".log")
    cut.write_bytes(cut.read_bytes()[:2000])
    with changed(long := an_object(both, 0, ".log")) as data:
        data.extend(b"more")
    with changed(indexes := an_object(both, 253, ".indexes")) as data:
        data[20] ^= 1
    short = an_object(both, 166, ".indexes")
    short.write_bytes(short.read_bytes()[:-1])
    an_object(both, 5, ".log").unlink()
    edit(newer := an_object(both, 86, MANIFEST), lambda found: found.update(version="2"))
    ended, found = verified(both, DATA)
    assert ended.status == 1
    told = {(each["path"], each["kind"], each["position"], each["found"]) for each in found}
    tag = "the AES-GCM tag is not that of these bytes: they are damaged, or have another key"
    assert told == {
        (str(log), "tier-object-damaged", 1630, f"chunk 2 of 3: {tag}; {LOST}"),
        (
            str(cut),
            "tier-object-damaged",
            1695,
            "chunk 2 of 3: 1,599 bytes, and the object ends at byte 2,000; offsets 116..165 are lost, or some of them",
        ),
        (str(long), "tier-object-damaged", None, "4 bytes behind the last chunk"),
        (str(indexes), "tier-object-damaged", 0, f".timeindex: {tag}"),
        (
            str(short),
            "tier-object-damaged",
            170,
            ".leader_epoch_checkpoint: 36 bytes, and the object ends at byte 205",
        ),
        (
            str(an_object(both, 5, MANIFEST).with_suffix(".log")),
            "tier-object-missing",
            None,
            "no .log; offsets 5..85 are lost",
        ),
        (str(newer), "tier-manifest-version", None, "version '2' of the manifest; kcli knows version 1"),
    }
    shown = kcli("tier", "verify", "--tier", both, "--key-pair", PAIR).stdout
    fetches = {line.split("Next: ")[1] for line in shown.splitlines() if "Next: kcli tier fetch" in line}
    assert fetches
    assert all(f" --key-pair {PAIR} " in each for each in fetches), "the printed command opens the tier"
    given = ("--key-pair", PAIR, "--topic", "r-short", "--partition", "0", "--out", tmp_path / "out")
    fetched = kcli("tier", "fetch", "--tier", both, *given)
    assert fetched.status == 1
    assert f"missing  offsets 196..252: {log}: byte 1,630: chunk 2 of 3: {tag}\n" in fetched.stdout
    assert f"missing  offsets 116..165: {cut}: byte 1,695: chunk 2 of 3:" in fetched.stdout
    assert f"missing  offsets 86..89: {newer}: version '2' of the manifest" in fetched.stdout
    assert f"wrong    {indexes}: byte 0: .timeindex: {tag}\n" in fetched.stdout
    rows = kcli("dump-segment", "--format", "jsonl", tmp_path / f"out/r-short-0/{172:020}.log").stdout.splitlines()
    assert [json.loads(rows[i])["offset"] for i in (0, -1)] == [172, 195]


def test_a_damaged_file_in_a_sound_object(tmp_path: Path) -> None:
    """Damage that no chunk shows is found by the checks of the file, and told of the object that has its bytes."""
    store = Path(shutil.copytree(AIVEN / "zstd", tmp_path / "zstd"))
    with changed(an_object(store, 5, ".indexes")) as data:
        data[2] ^= 0x40
    ended, found = verified(store, DATA)
    (one,) = found
    assert ended.status == 1
    assert (one["path"], one["kind"], one["position"]) == (str(an_object(store, 5, ".indexes")), "index-offset", None)
    assert one["found"].startswith("byte 0 of the .index: offset 16,3")
    assert one["command"].startswith("kcli tier fetch ")


@pytest.mark.parametrize("length", [0, 1, 4000, 4097])
def test_a_frame_of_another_length(length: int, tmp_path: Path) -> None:
    """Neither more nor less bytes come out of a chunk than the segment has there."""
    store = Path(shutil.copytree(AIVEN / "zstd", tmp_path / "zstd"))
    frame = compress(ZSTD, bytes(length))
    (log,) = store.glob("somer-short-*/1/*102-*.log")
    with changed(log) as data:
        data[: len(frame)] = frame
    _, found = verified(store, DATA)
    assert [each["kind"] for each in found] == ["tier-object-damaged"]
    assert found[0]["found"].startswith("chunk 1 of 3: ")
    assert found[0]["found"].endswith("offsets 102..184 are lost, or some of them")


def test_a_bomb(tmp_path: Path) -> None:
    """A chunk whose frame claims a gigabyte: no more is made of it than the chunk's 4 KiB."""
    store = Path(shutil.copytree(AIVEN / "zstd", tmp_path / "zstd"))
    log = an_object(store, 253, ".log")
    with changed(log) as data:
        data[:] = compress(ZSTD, bytes(64 << 20))[: len(data)]
    _, found = verified(store, DATA)
    assert [each["kind"] for each in found] == ["tier-object-damaged"]
    assert found[0]["found"].startswith("chunk 1 of 1: decompresses to more than the limit of 95 bytes; offset 253 is ")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda found: found["chunkIndex"].update(originalChunkSize=-1), "chunkIndex.originalChunkSize is '-1'"),
        (lambda found: found["chunkIndex"].update(originalFileSize=2**31 - 1), "sizes of 524,288 chunks"),
        (lambda found: found.pop("segmentIndexes"), "segmentIndexes is missing"),
        (lambda found: found["remoteLogSegmentMetadata"].update(startOffset=4), "the manifest is that of segment "),
        (lambda found: found.update(x="y" * (9 << 20)), "bytes are more than a manifest can have"),
    ],
    ids=["negative", "count", "missing", "foreign", "large"],
)
@pytest.mark.parametrize("log_dir", [[], [DATA]], ids=["alone", "with metadata"])
def test_a_hostile_manifest(change: Callable[[Any], object], text: str, log_dir: list[Path], both: Path) -> None:
    """One segment has a finding with its manifest's name; the others are read."""
    edit(manifest := an_object(both, 5, MANIFEST), change)
    ended, found = verified(both, *log_dir)
    assert ended.status == 1
    assert [(each["path"], each["kind"]) for each in found] == [(str(manifest), "tier-manifest")]
    assert text in found[0]["found"]
    assert (found[0]["lost_first_offset"], ended.stderr) == (5, "")


@pytest.mark.parametrize("suffix", [MANIFEST, ".indexes"])
def test_objects_without_others(suffix: str, both: Path) -> None:
    an_object(both, 5, suffix).unlink()
    _, found = verified(both, DATA)
    kind = "tier-manifest" if suffix == MANIFEST else "tier-object-missing"
    assert [each["kind"] for each in found] == [kind]
    assert found[0]["path"] == str(an_object(both, 5, ".log").with_suffix(suffix))
    an_object(both, 5, ".log").unlink()
    _, found = verified(both, DATA)
    assert [each["kind"] for each in found] == ["tier-manifest"]


def test_sections_beyond_the_object(both: Path) -> None:
    edit(an_object(both, 5, MANIFEST), lambda found: found["segmentIndexes"]["timestamp"].update(position=2**31 - 1))
    _, found = verified(both, DATA)
    (one,) = found
    assert one["found"].startswith(".timeindex: 148 bytes, and the object ends at byte ")
    edit(an_object(both, 5, MANIFEST), lambda found: found["segmentIndexes"]["timestamp"].update(size=2**31 - 1))
    _, found = verified(both, DATA)
    assert "tier-object-damaged" in {each["kind"] for each in found}
    assert any(".timeindex: 2,147,483,619 bytes are more than it can have" in each["found"] for each in found)


# names


@pytest.mark.parametrize("prefix", ["", "p", "p/", "a/b/p", "r-", "a-b-", "x/y/"])
def test_key_prefixes(prefix: str, tmp_path: Path) -> None:
    """The manifests tell the prefix, with and without a slash at its end; the address may have it or not."""
    for path in (AIVEN / "both").rglob("*"):
        if path.is_file():
            target = tmp_path / "store" / f"{prefix}{path.relative_to(AIVEN / 'both')}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    store = opened(tmp_path / "store")
    names = {each.name for each in opened(AIVEN / "both").list_objects("r-short-")}
    assert {each.name for each in store.list_objects("r-short-")} == names
    name = min(names)
    assert Path(store.place(name)).is_file()
    assert Path(store.place("r-short-0-KlEWaF5xTFCF8vBhf0Z2Xg")).is_dir()
    if prefix:
        inner = opened(tmp_path / "store" / prefix)
        assert {each.name for each in inner.list_objects("r-short-0-KlEWaF5xTFCF8vBhf0Z2Xg/")} == {
            each for each in names if each.startswith("r-short-0-")
        }
        assert inner.place(name) == store.place(name)


def test_what_is_below_another_prefix(both: Path) -> None:
    foreign = both / "other" / SHORT / f"{5:020}-{'A' * 22}.log"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"")
    (both / "readme").write_bytes(b"")
    (both / "link").symlink_to("/etc")
    others = Tier.read(opened(both)).inventory.others
    assert {each.name: each.odd for each in others} == {
        "link": "a symbolic link, which is not followed",
        f"other/{SHORT}/{5:020}-{'A' * 22}.log": "not below the key prefix ''",
        "readme": None,
    }
    out = kcli("tier", "orphans", DATA, "--tier", both).stdout
    assert out.count("tier-foreign-file") == 3


@pytest.mark.parametrize(
    "key",
    [
        "",
        "x",
        f"t-{'A' * 22}/0/{5:020}-{'A' * 22}.txt",
        f"t-{'A' * 22}/00/{5:020}-{'A' * 22}.log",
        f"{'A' * 22}/0/5.log",
    ],
)
def test_keys_that_are_none(key: str) -> None:
    assert parse_key(key) is None


@pytest.mark.parametrize("topic", ["..", "a/b", "x" * 250, "a b"])
def test_topics_that_are_none(topic: str) -> None:
    key = parse_key(f"{topic}-{'A' * 22}/0/{5:020}-{'A' * 22}.log")
    assert key is not None
    name = segment_name(key, "")
    assert name is None or "/" not in name.partition.topic


def test_deep_directories(both: Path) -> None:
    """A directory nested without end ends no listing."""
    deep = both / "/".join("a" * 300)
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(b"")
    others = Tier.read(opened(both)).inventory.others
    assert [each.odd for each in others] == ["a directory below 32 others, which is not read"]


def test_links_are_not_followed(both: Path, tmp_path: Path) -> None:
    log = an_object(both, 5, ".log")
    log.rename(tmp_path / "elsewhere")
    log.symlink_to(tmp_path / "elsewhere")
    store = opened(both)
    name = f"r-short-0-KlEWaF5xTFCF8vBhf0Z2Xg/{log.name}"
    with pytest.raises(UnreadableInput, match="not followed"):
        store.open(name)
    for bad in ("../x", "a//b", "/etc/passwd", "a/../b"):
        with pytest.raises(UsageError):
            LocalStore(both).open_key(bad)


def test_only_read(both: Path) -> None:
    store = opened(both)
    name = next(store.list_objects()).name
    with pytest.raises(UsageError, match="are only read"):
        store.write(name, [])
    with pytest.raises(UsageError, match="are only read"):
        store.delete(name)
    store.forget("x")
    ended = kcli("tier", "attach", both, "--tier", both, "--topic", "r-short")
    assert (ended.status, ended.stdout) == (2, "")
    assert "attach takes a tier in the layout of LocalTieredStorage alone" in ended.stderr


def test_errors_by_name(both: Path) -> None:
    store = open_tier(str(both))
    name = next(each.name for each in store.list_objects() if each.name.endswith(FileKind.LOG))
    with pytest.raises(KeyMissing):
        store.open(name)
    with pytest.raises(UsageError):
        store.open("x")
    edit(both / name_of_manifest(store.place(name)), lambda found: found.update(version="7"))
    with pytest.raises(DamagedObject, match="version '7'"):
        store.size(name)


def name_of_manifest(log: str) -> Path:
    return Path(log).with_suffix(MANIFEST)


# a bucket


def test_a_bucket(s3: str) -> None:
    """The same in a bucket, below a prefix that ends in no slash; URLs in messages."""
    uploaded = client(s3)
    bucket = new_bucket(s3)
    for path in (AIVEN / "both").rglob("*"):
        if path.is_file():
            key = f"deep/some{path.relative_to(AIVEN / 'both')}"
            uploaded.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    for url in (f"s3://{bucket}/deep/some", f"s3://{bucket}/deep", f"s3://{bucket}"):
        ended, found = verified(url, DATA)
        assert (ended.status, ended.stderr, found) == (0, "", [])
    stem = f"some{SHORT}/00000000000000000005-Vx-P2JSwR3-v8HZOhqCuTw"
    uploaded.delete_object(Bucket=bucket, Key=f"deep/{stem}.log")
    _, (one,) = verified(f"s3://{bucket}/deep/some", DATA)
    assert (one["path"], one["kind"]) == (f"s3://{bucket}/deep/{stem}.log", "tier-object-missing")
    with pytest.raises(UnreadableInput, match="no object's name begins with this prefix"):
        open_tier("s3://golden/none")

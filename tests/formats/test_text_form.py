"""Texts of a log's bytes, as programs write them, turned back into the bytes."""

import base64
import random
import subprocess
from collections.abc import Callable

import pytest

from formats.archive import HEAD_BYTES, Archive, archive_named, inflated
from formats.errors import BadCompression
from tests.conftest import SAMPLES

LOG = next(path for path in sorted(SAMPLES.rglob("*.log")) if path.stat().st_size > 5000).read_bytes()
CONTENT = LOG + bytes(100) + LOG[:101]  # zeros, which dumps write as `*`, and an odd size


def shell(command: str) -> Callable[[bytes], bytes]:
    return lambda data: subprocess.run(command, shell=True, check=True, input=data, capture_output=True).stdout


TEXTS: dict[str, tuple[Archive, Callable[[bytes], bytes]]] = {
    "lines": (Archive.BASE64, base64.encodebytes),
    "CR LF": (Archive.BASE64, lambda data: base64.encodebytes(data).replace(b"\n", b"\r\n")),
    "one line": (Archive.BASE64, base64.b64encode),
    "URL": (Archive.BASE64, base64.urlsafe_b64encode),
    "hex": (Archive.HEX, lambda data: data.hex().encode()),
    "xxd": (Archive.XXD, shell("xxd")),
    "xxd -a": (Archive.XXD, shell("xxd -a")),
    "xxd -p": (Archive.HEX, shell("xxd -p")),
    "hexdump -C": (Archive.HEXDUMP, shell("hexdump -C")),
    "od": (Archive.HEXDUMP, shell("od -A x -t x1z")),
    "hexdump": (Archive.WORDS, shell("hexdump")),
    "UTF-16": (Archive.UTF_16, shell("iconv -f ISO-8859-1 -t UTF-16")),
    "UTF-16BE": (Archive.UTF_16, lambda data: b"\xfe\xff" + data.decode("latin-1").encode("utf-16-be")),
}


@pytest.mark.parametrize("how", TEXTS)
@pytest.mark.parametrize("step", [1 << 20, 997, 7])
def test_a_text_becomes_the_bytes_again(how: str, step: int) -> None:
    archive, write = TEXTS[how]
    text = write(CONTENT)
    assert archive_named(text[:HEAD_BYTES]) == archive
    chunks = (text[at : at + step] for at in range(0, len(text), step))
    assert b"".join(inflated(archive, chunks)) == CONTENT


@pytest.mark.parametrize("how", [how for how in TEXTS if how != "URL"])
def test_the_shell_command_does_the_same(how: str) -> None:
    archive, write = TEXTS[how]
    content = CONTENT[:-1] if how == "hexdump" else CONTENT  # dd writes whole words
    assert shell(archive.undo)(write(content)) == content


@pytest.mark.parametrize("text", [b"", b"0" * 512, b"A" * 512, b"note\n" * 100, b"00000000: zz\n" * 40, b"*\n" * 256])
def test_other_texts_are_none_of_a_log(text: bytes) -> None:
    assert archive_named(text[:HEAD_BYTES]) is None


def test_a_damaged_text_gives_a_typed_error() -> None:
    for archive, write in TEXTS.values():
        text = bytearray(write(CONTENT))
        for seed in range(20):
            at = random.Random(seed).randrange(len(text))
            damaged = bytes(text[:at]) + b"\xff" + bytes(text[at + 1 :])
            try:
                b"".join(inflated(archive, [damaged]))
            except BadCompression:
                continue


def test_no_dump_fills_the_memory() -> None:
    begin = shell("hexdump -C")(CONTENT)[:790]
    with pytest.raises(BadCompression, match="beyond the end of any segment"):
        b"".join(inflated(Archive.HEXDUMP, [begin + b"*\nffffffffffffffff\n"]))
    parts = list(inflated(Archive.HEXDUMP, [begin + b"*\n0fffffff\n"]))
    assert sum(map(len, parts)) == 0x0FFFFFFF // 16 * 16
    assert max(map(len, parts)) <= 16 << 20

"""Bytes and text."""

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

from kcli.errors import UsageError
from kcli.export.decoding import LIBRARIES, DecoderSpec, make_decoder


def test_raw_payloads_stay_as_they_are() -> None:
    payloads = pa.array([b"\xff", None, b""], pa.binary())
    values, reasons = make_decoder("raw").decode(payloads)
    assert values.equals(payloads)
    assert reasons.to_pylist() == [None] * 3


def test_text_is_text() -> None:
    decoder = pickle.loads(pickle.dumps(make_decoder("string")))
    values, reasons = decoder.decode(pa.array(["grün".encode(), None, b""], pa.binary()))
    assert values.type == decoder.type == pa.string()
    assert values.to_pylist() == ["grün", None, ""]
    assert reasons.to_pylist() == [None] * 3


def test_what_is_not_utf8_is_named_and_keeps_nothing_else_back() -> None:
    values, reasons = make_decoder("string").decode(pa.array([b"a", b"ab\xff", None, b"c"], pa.binary()))
    assert values.to_pylist() == ["a", None, None, "c"]
    assert reasons.to_pylist() == [None, "not UTF-8 at byte 2: invalid start byte", None, None]


def test_no_spark_is_needed() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import kcli.export.decoding as d; d.make_decoder('json:a INT')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIBRARIES, "avro", ("nothing.within",))
    with pytest.raises(UsageError, match=r"nothing.within is not installed, .*: pip install 'kafka-kcli\[spark\]'"):
        make_decoder("avro:order.avsc")


@pytest.mark.parametrize("text", ["xml", "raw:x", "avro", "protobuf", "string:utf-16"])
def test_a_spec_that_makes_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        DecoderSpec.parse(text)

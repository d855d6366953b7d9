"""One type for several."""

import pyarrow as pa
import pytest

from kcli.export.decoding import SchemaError
from kcli.export.decoding.unify import settle, unify, unify_all

DECIMAL = pa.decimal128


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.null(), pa.date32(), pa.date32()),
        (DECIMAL(5, 2), DECIMAL(6, 4), DECIMAL(7, 4)),
        (DECIMAL(5, 2), pa.int32(), DECIMAL(12, 2)),
        (pa.list_(pa.int8()), pa.list_(pa.int16()), pa.list_(pa.int16())),
        (pa.map_(pa.string(), pa.null()), pa.map_(pa.string(), pa.bool_()), pa.map_(pa.string(), pa.bool_())),
        (
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
            pa.struct([("c", pa.bool_()), ("a", pa.int64())]),
            pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())]),
        ),
    ],
)
def test_what_has_a_type_in_common(one: pa.DataType, other: pa.DataType, both: pa.DataType) -> None:
    assert unify(one, other) == both
    assert unify_all([one, other, one, other]) == both
    assert unify(both, one) == unify(both, other) == both


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int32(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.date32(), pa.int32()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (DECIMAL(38, 0), DECIMAL(38, 38)),
        (DECIMAL(5, 2), pa.float64()),
        (pa.list_(pa.int8()), pa.int8()),
    ],
)
def test_what_has_none(one: pa.DataType, other: pa.DataType) -> None:
    inner = [pa.struct([("x", pa.list_(pa.struct([("y", kind)])))]) for kind in (one, other)]
    with pytest.raises(SchemaError, match=r"^x\[\]\.y is "):
        unify(*inner)
    assert unify(one, other, text=True) == pa.string()


def test_what_is_not_known_is_text() -> None:
    unknown = pa.struct([("a", pa.list_(pa.null())), ("b", pa.struct([])), ("c", pa.map_(pa.string(), pa.null()))])
    text = pa.string()
    assert settle(unknown) == pa.struct([("a", pa.list_(text)), ("b", text), ("c", pa.map_(text, text))])

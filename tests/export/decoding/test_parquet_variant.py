"""VARIANT columns that readers of Parquet know as such."""

import io
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kcli.export.decoding import make_decoder
from kcli.export.decoding.parquet_variant import _marked, mark_variants


def write(path: Path) -> pa.Table:
    texts = [b'{"a":1,"b":[1.5,"x"]}', None, b"[true]", b"{"]
    values, _ = make_decoder("json:variant").decode(pa.array(texts, pa.binary()))
    plain = pa.array([{"v": {"value": b"x"}}] * 4)
    numbers = pa.array([1.5, None, -2.0, 3.0])
    table = pa.table({"plain": plain, "v": values, "number": numbers, "list": pa.array([[1], None, [], [2, 3]])})
    pq.write_table(table, path, row_group_size=2, write_page_index=True)
    return table


def test_readers_see_variants(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = write(path)
    mark_variants(path, ["v"])
    assert "v (Variant(1)) {" in str(pq.ParquetFile(path).schema)
    assert str(pq.ParquetFile(path).schema).count("Variant") == 1  # not the one inside of `plain`
    assert pq.read_table(path).equals(table)
    rows = duckdb.execute(f"select typeof(v), v::json from '{path}'").fetchall()
    assert rows == [("VARIANT", '{"a":1,"b":[1.5,"x"]}'), ("VARIANT", None), ("VARIANT", "[true]"), ("VARIANT", None)]


def test_all_else_of_the_footer_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert _marked(footer, []) == footer
    out = io.BytesIO()
    wide = pa.table({f"c{i}": [i % 2 == 0, None] for i in range(300)})
    pq.write_table(wide.replace_schema_metadata({"k": "v" * 1000}), out)
    data = out.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert _marked(footer, []) == footer


def test_what_cannot_be_marked(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path)
    with pytest.raises(ValueError, match="no column w"):
        mark_variants(path, ["v", "w"])
    path.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="no Parquet file"):
        mark_variants(path, ["v"])

"""Copies of directories: the same bytes, times and holes; locks stay behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.testing import snapshot


@pytest.mark.parametrize("clones", [True, False])
def test_a_copy_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, clones: bool) -> None:
    if not clones:
        monkeypatch.setattr(snapshot, "_cloned", lambda *_: False)
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "a-0").mkdir(parents=True)
    (source / ".lock").touch()
    (source / "empty").touch()
    sparse = source / "a-0" / "00.index"
    with sparse.open("wb") as file:
        file.write(b"begin")
        file.seek(3 << 20)
        file.write(b"middle")
        file.truncate(10 << 20)
    snapshot.copy_tree(source, target)
    files = [path.relative_to(target).as_posix() for path in sorted(target.rglob("*")) if path.is_file()]
    assert files == ["a-0/00.index", "empty"]
    copied = target / "a-0" / "00.index"
    assert copied.read_bytes() == sparse.read_bytes()
    assert copied.stat().st_mtime_ns == sparse.stat().st_mtime_ns
    assert copied.stat().st_blocks <= sparse.stat().st_blocks
    snapshot.remove_tree(target)
    assert not target.exists()

"""The file system as logs use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.log.disk import Disk


def test_a_link_in_place_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    """A user with write access to a log directory must not make the broker overwrite files elsewhere."""
    outside = tmp_path / "outside"
    outside.write_text("precious")
    target = tmp_path / "checkpoint"
    (tmp_path / "checkpoint.tmp").symlink_to(outside)
    Disk().write_file(target, b"0\n0\n")
    assert outside.read_text() == "precious"
    assert target.read_bytes() == b"0\n0\n"
    assert not target.is_symlink()


def test_what_is_truncated_is_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(OSError, match="symbolic links"):
        Disk().open(tmp_path / "link", create=True, truncate=True)
    assert outside.read_text() == "precious"

"""What a write leaves behind when it is cut, and what a start removes."""

from pathlib import Path

from proto.role import durable


def test_what_a_cut_write_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    left = durable.write_temporary(tmp_path / "memory.md", b"half")
    durable.replace(tmp_path / "memory.md", b"whole")
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / ".memory.md.tmp").write_text("an editor's")
    (tmp_path / ".folder.0a1b2c3d4e5f.tmp").mkdir()
    (tmp_path / ".link.0a1b2c3d4e5f.tmp").symlink_to(tmp_path / "elsewhere")
    kept = {path for path in tmp_path.iterdir() if path != left}
    assert durable.sweep_temporaries(tmp_path) == [left]
    assert set(tmp_path.iterdir()) == kept
    assert durable.sweep_temporaries(tmp_path) == []

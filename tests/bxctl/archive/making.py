"""Backups for tests: good ones by the writer itself, and hostile ones by hand."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from bxctl.archive.manifest import Manifest
from bxctl.archive.pack import Writer
from bxctl.archive.read import Archive
from proto.messages.wire import ChainedJournal

MADE = "2026-09-24T21:02:03Z"
JOURNAL = ChainedJournal(path="memory/edits/", heads="state/memoryd/heads", text_fields=["before", "after"])


def look_through(path: Path) -> None:
    """What `bxctl backup` does with a file before it gets its name."""
    with Archive(path) as archive:
        archive.verify()


def pack(path: Path, files: dict[str, bytes], journals: tuple[ChainedJournal, ...] = ()) -> Manifest:
    """A good backup of these files."""
    with Writer(path) as writer:
        for number, (name, data) in enumerate(files.items()):
            writer.add(name, len(data), 1_790_284_923_000_000_000 + number, [data])
        writer.journals += journals
        return writer.finish(MADE, credentials=False, check=look_through)


def said(files: dict[str, bytes], **changes: Any) -> dict[str, Any]:
    """What an honest manifest of these files says."""
    rows = [
        {"path": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mtime_ns": 0}
        for name, data in files.items()
    ]
    return {
        "boxmaker_backup": 1, "format": 1, "made": MADE, "credentials": False, "files": rows, "journals": [], **changes,
    }  # fmt: skip


def forge(path: Path, manifest: Any, members: dict[str, bytes], mode: int = 0o100600) -> Path:
    """A zip of any members, with anything for a manifest."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            made.writestr(info, data)
        if manifest is not None:
            made.writestr("manifest.json", json.dumps(manifest))
    return path

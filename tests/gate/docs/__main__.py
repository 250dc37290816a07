"""Writes the generated pages, or with `--check` says which of them are not what the source says: `make docs`."""

import difflib
import sys
from pathlib import Path

from tests.gate.docs import configuration, protocol, roles

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {
    "protocol.md": protocol.page,
    "configuration.md": configuration.page,
    "roles.md": roles.page,
}


def outdated(docs: Path) -> dict[str, str]:
    """For each page that differs from what is generated, the difference."""
    found = {}
    for name, page in PAGES.items():
        there = (docs / name).read_text(encoding="utf-8") if (docs / name).exists() else ""
        lines = there.splitlines(), page().splitlines()
        if difference := "\n".join(difflib.unified_diff(*lines, "as it is", "as generated", "", "", 1, "")):
            found[name] = difference
    return found


def main(arguments: list[str]) -> int:
    """Exit status: 1 when `--check` found a page that is not current."""
    if arguments != ["--check"]:
        DOCS.mkdir(exist_ok=True)
        for name, page in PAGES.items():
            (DOCS / name).write_text(page(), encoding="utf-8")
        return 0
    differences = outdated(DOCS)
    for name, difference in differences.items():
        print(f"docs/{name} is not what the source says; run: make docs\n{difference}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

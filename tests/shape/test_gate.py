"""The gate finds what it is there to find."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate import __main__ as gate
from tests.gate import dead
from tests.gate.docs import text
from tests.gate.docs.__main__ import PAGES, outdated
from tests.gate.steps import Step
from tests.shape import tree

DETACHED = """
import subprocess, sys
from tests.gate import orphans
orphans.adopt()
subprocess.run(["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & exit 0"], check=True)
print(orphans.end_all(grace_s=0.1), orphans.end_all(grace_s=0.1))
"""


def test_a_process_that_detached_itself_is_found_and_ended() -> None:
    command = (sys.executable, "-c", DETACHED)
    seen = subprocess.run(command, cwd=tree.ROOT, check=True, capture_output=True, text=True, timeout=30)
    assert seen.stdout == "['sleep 300'] []\n"


def test_a_step_passes_only_if_each_of_its_commands_does() -> None:
    assert gate.run(Step("good", "", (("true",), ("true",))))
    assert not gate.run(Step("bad", "", (("true",), ("false",))))


def test_steps_side_by_side_are_each_judged_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        Step("one", "", (("sh", "-c", "sleep 0.2; echo from one"),)),
        Step("two", "", (("true",), ("sh", "-c", "echo from two >&2; exit 3"))),
    ]
    assert list(gate.run_beside(steps)) == [("one", True), ("two", False)]
    shown = capsys.readouterr().out
    assert (
        shown.index("from one") < shown.index("── one: passed") < shown.index("from two") < shown.index("failed with 3")
    )


def test_a_step_that_does_not_exist_is_named() -> None:
    assert gate.main(["shape", "tpyes"]) == 2


def test_a_page_that_was_edited_by_hand_is_found(tmp_path: Path) -> None:
    for name, page in PAGES.items():
        (tmp_path / name).write_text(page(), encoding="utf-8")
    assert outdated(tmp_path) == {}
    (tmp_path / "roles.md").write_text("# mine\n", encoding="utf-8")
    assert list(outdated(tmp_path)) == ["roles.md"]


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert text.table(("a",), [("x | y",)]) == "| a |\n| --- |\n| x \\| y |\n"


def test_a_name_that_is_said_to_be_alive_is_in_the_product() -> None:
    words = {word for module in tree.modules() for word in module.text.replace("(", " ").split()}
    assert {name for name in dead.ALIVE if not any(name in word for word in words)} == set()

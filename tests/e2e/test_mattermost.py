"""A Mattermost before the whole box: the real daemons, a fake server, a scripted model (M5a 14, "On the device")."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.messages import loop
from tests.e2e.box import Box, in_threads
from tests.fakes.mattermost import FakeMattermost
from tests.fakes.mattermost.thread import asked, said
from tests.fakes.model import FakeModel, calls
from tests.fakes.page import FETCH

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture
def server() -> Iterator[FakeMattermost]:
    with FakeMattermost() as fake:
        yield fake


@pytest.fixture
def model(home: Path) -> Iterator[FakeModel]:
    with FakeModel(path=home / "m" / "model.sock") as fake:
        yield fake


@pytest.fixture
def box(home: Path, model: FakeModel, server: FakeMattermost) -> Iterator[Box]:
    (home / "grants").mkdir(mode=0o700)
    (home / "grants" / "http_fetch.toml").write_text(FETCH)
    with in_threads(home, server, model.url, "reconnect_most_s = 0.3\nedit_every_s = 0.05\n") as running_box:
        yield running_box


def test_a_fact_told_in_one_thread_is_recalled_in_another(box: Box, server: FakeMattermost, model: FakeModel) -> None:
    model.script = [{"text": "noted"}]
    first = asked(server, "The launch window moved to Thursday.", answer="noted")
    model.script = [calls("recall", query="launch window"), {"text": "Thursday"}]
    asked(server, "When is the launch?", answer="Thursday")
    (result,) = model.results
    source, snippet = result.splitlines()[:2]
    assert source.startswith(f"[1] memory · session mm-{first['id']}, ")
    assert source.endswith(" UTC, the owner said · private")
    assert snippet == "The launch window moved to Thursday."
    listed = box.ask("owner-loop", loop.Sessions(), loop.SessionsReply).sessions
    assert {row.session for row in listed} >= {f"mm-{first['id']}"}
    assert {row.state for row in listed} == {"open"}


def test_a_memory_is_in_the_next_thread_and_not_in_this_one(box: Box, server: FakeMattermost, model: FakeModel) -> None:
    model.script = [calls("memory", action="add", file="user", text="Likes tea."), {"text": "done"}]
    first = asked(server, "Remember that I like tea.")
    model.script = [{"text": "well"}, {"text": "tea"}]
    asked(server, "and?", first, answer="well")
    assert "Likes tea." not in model.system
    asked(server, "What do I drink?", answer="tea")
    assert "Likes tea." in model.system


def test_an_approval_by_reaction_and_what_it_leaves(box: Box, server: FakeMattermost, model: FakeModel) -> None:
    url = "https://127.0.0.1:1/@here"
    model.script = [calls("call_tool", tool="http_fetch", arguments={"url": url}), {"text": "could not"}]
    root = server.say(server.owner, server.dm, "fetch it")
    server.wait(lambda: said(server, root), 20)
    server.wait(lambda: any("waits for you" in text for text in said(server, root)), 20)
    question = next(post for post in server.posts(server.dm, root) if "waits for you" in post["message"])
    assert "@here" not in question["message"]
    server.react(server.owner, question["id"], "x")
    server.react(server.owner, question["id"], "+1")
    server.wait(lambda: "could not" in said(server, root), 20)
    audit = (box.home / "audit" / "decisions.jsonl").read_text()
    assert f"mattermost {server.owner['id']}" in audit
    server.wait(lambda: '"why":"repeated"' in (box.home / "audit" / "decisions.jsonl").read_text(), 20)


@pytest.mark.kill
def test_each_daemon_killed_in_the_middle_of_a_turn(box: Box, server: FakeMattermost, model: FakeModel) -> None:
    for number, daemon in enumerate(("loopd", "egressd", "brokerd", "memoryd")):
        model.script = [{"text": "the answer", "hold": True}, {"text": "the answer"}]
        before = len(model.requests)
        root = server.say(server.owner, server.dm, f"go {number}")
        server.wait(lambda before=before: len(model.requests) > before, 20)  # type: ignore[misc]
        box.kill(daemon)
        box.start(daemon)
        model.release()
        server.wait(lambda root=root: said(server, root) == ["the answer"], 30)  # type: ignore[misc]
        model.hold_again()

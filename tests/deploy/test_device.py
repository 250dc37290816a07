"""M5a section 14, "On the device", line by line, on a real systemd with the real units; then what the thread must survive.

The nearest thing to the owner's own device and server: a host of namespaces, a Mattermost of the test's, a scripted model.
"""

import json
import re
from collections.abc import Iterator

import pytest

from tests.deploy.boxed import MARKS
from tests.deploy.device import Device, talking
from tests.e2e.box import DAEMONS
from tests.fakes.mattermost.state import Map
from tests.fakes.model import Reply, calls
from tests.fakes.page import FETCH, serve_page

pytestmark = MARKS

MOST_TOKENS = 3000
FACT = "The launch window moved to Thursday."
TEA = "Likes tea."
UTC = "The owner prefers answers in UTC."
NEWS = "The release moved to March."


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    """The same for all: one lives with what the other left."""
    with talking() as made:
        yield made


def _memory(**arguments: object) -> Reply:
    return calls("memory", **arguments)


def _recall(query: str) -> Reply:
    return calls("recall", query=query)


def _hit(device: Device, text: str) -> str:
    """The source line of the hit that shows a text."""
    lines = device.model.results[-1].splitlines()
    return lines[lines.index(text) - 1]


def _questioned(device: Device, text: str, url: str, *replies: Reply) -> tuple[Map, Map]:
    """A turn in which a page shall be fetched: the thread's first post, and the one that asks the owner for it."""
    (device.boxed.home / "grants/http_fetch.toml").write_text(FETCH)
    device.model.script = [calls("call_tool", tool="http_fetch", arguments={"url": url}), *replies]
    root = device.say(text)
    server = device.server

    def questions() -> list[Map]:
        return [post for post in server.posts(server.dm, root) if "**A call waits for you**" in post["message"]]

    (question,) = server.wait(questions, 20)
    assert url in question["message"]
    return root, question


def _allow(device: Device, root: Map, question: Map, answer: str) -> None:
    """Allow it, and wait for the answer, whose post was made first, to say what the tool does."""
    device.server.react(device.server.owner, question["id"], "white_check_mark")
    device.answered(root, answer, question["message"])


def test_every_line_on_the_device(device: Device) -> None:
    assert device.bxctl("doctor").endswith("nothing is wrong\n")

    # The baseline, with the soul that the box comes with, is 3,000 tokens or less.
    root = device.asked("Hello.")
    assert f"# soul.md\n{device.memory('soul.md').strip()}\n" in device.model.system
    assert "# memory.md (0 of 2,200 characters)\n(empty)" in device.model.system
    baseline = device.model.system + json.dumps(device.model.requests[-1].json["tools"], ensure_ascii=False)
    assert 500 < device.count_tokens(baseline) <= MOST_TOKENS

    # What is told in one thread is recalled in another.
    told = device.asked(FACT, answer="noted")
    device.asked("When is the launch?", _recall("launch window"), answer="Thursday")
    assert re.fullmatch(
        rf"\[1\] memory · session mm-{told['id']}, .* UTC, the owner said · private", _hit(device, FACT)
    )

    # An add asks nothing, is in the log, and in the prompt of a new thread alone.
    writer = device.asked("Remember that I like tea.", _memory(action="add", file="user", text=TEA))
    assert device.model.results == ["user.md updated (10 of 1,375 characters); it takes effect in the next session"]
    (row,) = [line for line in device.bxctl("memory", "log").splitlines() if f"mm-{writer['id']}" in line]
    assert row.split()[-3:] == ["add", "user.md", "agent"]
    device.asked("And now?", root=writer)
    assert TEA not in device.model.system
    device.asked("What do I drink?", answer="tea")
    assert f"# user.md (10 of 1,375 characters)\n{TEA}" in device.model.system

    # What consolidate moves out of a file is found by recall.
    device.asked("I think in UTC.", _memory(action="add", file="memory", text=UTC))
    entries = [{"old": UTC, "move": True}, {"text": "The box is new."}]
    device.asked("Tidy up.", _memory(action="consolidate", file="memory", entries=entries))
    device.asked("Which time do I want?", _recall("answers in UTC"), answer="UTC")
    assert "# memory.md (15 of 2,200 characters)\nThe box is new." in device.model.system
    assert re.fullmatch(r"\[\d\] identity · moved \d{4}-\d\d-\d\d from memory.md · private", _hit(device, UTC))

    # What is written after a page was fetched becomes an untrusted note, and comes back untrusted.
    with device.boxed.host.network(), serve_page(f"<p>{NEWS}</p>") as url:
        add, note = (
            _memory(action="add", file="memory", text=NEWS),
            _memory(action="note", text="The page says March."),
        )
        root, question = _questioned(device, "Read the news.", url, add, note, {"text": "read"})
        _allow(device, root, question, "read")
    page, added, noted = device.model.results
    assert NEWS in page
    assert added == "saved as a note (untrusted): this session has read untrusted content"
    assert noted == "noted (untrusted)"
    assert device.memory("memory.md") == "The box is new."
    header = rf"§ noted \d{{4}}-\d\d-\d\dT\d\d:\d\dZ in session mm-{root['id']} · private · untrusted\n{NEWS}"
    assert re.search(header, device.memory("notes.md"))
    asker = device.asked("What of the release?", _recall("release March"))
    assert NEWS not in device.model.system
    assert re.fullmatch(rf"\[\d\] memory-tainted · note, .* UTC, session mm-{root['id']} · private", _hit(device, NEWS))
    labels = json.loads(device.bxctl("sessions", "--labels", "--json"))["sessions"]
    untrusted = {row["session"] for row in labels if row["untrusted"]}
    assert untrusted == {f"mm-{root['id']}", f"mm-{asker['id']}"}

    # The latest edit of a file is undone; a new thread shows it.
    edits = json.loads(device.bxctl("memory", "log", "--json"))["edits"]
    (latest,) = [edit for edit in edits if edit["action"] == "consolidate"]
    device.bxctl("memory", "undo", latest["id"])
    assert device.memory("memory.md") == UTC
    device.asked("And my times?", answer="UTC")
    assert f"# memory.md (33 of 2,200 characters)\n{UTC}" in device.model.system
    (row,) = [line for line in device.bxctl("memory", "log").splitlines() if " undo " in line]
    assert row.split()[-2:] == ["memory.md", "owner"]


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_killed_in_the_middle_of_a_turn(device: Device, daemon: str) -> None:
    """Its first words stand in the thread, and a write is still to come: the answer is there once, and what is written."""
    entry = f"{daemon} was ended."
    words: Reply = {"when": "Write that down", "text": "I shall write it down, then.", "hold_at": 3}
    device.model.hold_again()
    device.model.script = [
        words | _memory(action="add", file="memory", text=entry),
        {"when": "memory.md updated", "text": f"{daemon} is back."},
    ]
    starts = int(device.boxed.show(daemon, "NRestarts"))
    root = device.say(question := f"Write that down: {entry}")
    device.server.wait(lambda: device.said(root), 20)
    device.boxed.kill(daemon)
    device.server.forget_pending()  # as it does after a while: what keeps the box from repeating a post is in the thread
    device.model.release()
    device.answered(root, f"{daemon} is back.")
    device.asked("Thank you.", root=root, answer="Gladly.")
    device.check()
    assert device.boxed.log(f"mm-{root['id']}") == [
        ("user", question),
        ("assistant", words["text"]),
        ("assistant", f"{daemon} is back."),
        ("user", "Thank you."),
        ("assistant", "Gladly."),
    ]
    assert device.memory("memory.md").split("\n§\n").count(entry) == 1
    assert int(device.boxed.show(daemon, "NRestarts")) == starts + 1


@pytest.mark.parametrize("daemon", ["brokerd", "loopd"])
def test_a_daemon_killed_while_a_question_waits(device: Device, daemon: str) -> None:
    """The question outlives brokerd. After the end of loopd its answer comes late, and the model hears of the interruption."""
    answers: list[Reply] = [{"when": "interrupted: ", "text": "Not read."}, {"when": NEWS, "text": "Read."}]
    with device.boxed.host.network(), serve_page(f"<p>{NEWS}</p>") as url:
        root, question = _questioned(device, "Read them again.", url, *answers)
        device.boxed.kill(daemon)
        if daemon == "loopd":
            device.answered(root, "Not read.", question["message"])
        else:
            _allow(device, root, question, "Read.")
    device.asked("Thank you.", root=root, answer="Gladly.")


def test_the_threads_go_on_after_a_restart_of_the_host(device: Device) -> None:
    """In the middle of a turn, with a post that nobody heard: each is answered once, and so were all before."""
    root = device.asked("One.", answer="First.")
    device.model.hold_again()
    device.model.script = [{"text": "This is never said to its end.", "hold_at": 3}]
    device.say("Two.", root)
    device.server.wait(lambda: len(device.said(root)) > 1, 20)
    device.boxed.host.halt()
    device.server.forget_pending()
    unheard = device.say("Is anybody there?")
    device.boxed.host.boot()
    device.boxed.serve({"when": "Two.", "text": "Second."}, {"when": "anybody", "text": "Here I am."})
    device.serve()
    device.answered(root, "Second.")
    device.answered(unheard, "Here I am.")
    device.asked("Three.", root=root, answer="Third.")
    device.check()
    said = [text for kind, text in device.boxed.log(f"mm-{root['id']}") if kind == "user"]
    assert said == ["One.", "Two.", "Three."]
    assert {device.boxed.show(daemon, "ActiveState") for daemon in DAEMONS} == {"active"}

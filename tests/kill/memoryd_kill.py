"""Kills memoryd again and again while sixteen sessions write and a hand edits, and then looks for what went wrong.

    python -m tests.kill.memoryd_kill --kills 1000

What must hold: every acknowledged write is in the journal, once; every line of the journal is by its true author; each
file is what its lines say, one after the other; nothing is torn; the chain verifies; a reindex gives the same index.
"""

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memoryd.identity import entries as text_of
from memoryd.identity import notes as notes_of
from proto import sockets
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import ToolRequest, ToolResponse
from proto.messages.memory import (
    MemoryBlock,
    MemoryBlockReply,
    MemoryCall,
    MemoryShow,
    MemoryShowReply,
    Reindex,
    Reindexed,
    SessionUpdated,
)
from proto.messages.wire import Ok, Ping, Verify, VerifyReply
from proto.role.ask import ask

WRITERS = 16
MOST_LIVE = 3
READY_S = 20.0


class Sent(NamedTuple):
    """A call of a writer: what it asked for, and the answers that it got to it (more than one when it was repeated)."""

    arguments: dict[str, Any]
    untrusted: bool
    answers: list[tuple[bool, str]]


class Box:
    """A home with a memoryd that is killed and started again."""

    def __init__(self, seed: int) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="bx"))
        self.chance = random.Random(seed)
        self.stop = threading.Event()
        self.log = (self.home / "stderr").open("ab")
        self.process: subprocess.Popen[bytes] | None = None
        self.paths = {
            name: sockets.socket(name).at(self.home) for name in ("loop-memory", "broker-memory", "owner-memory")
        }

    def start(self) -> None:
        command = (sys.executable, "-m", "memoryd", "serve", "--home", str(self.home))
        self.process = subprocess.Popen(command, stderr=self.log, stdin=subprocess.DEVNULL)

    def wait_until_ready(self) -> None:
        assert self.process is not None
        until = time.monotonic() + READY_S
        while True:
            try:
                ask(self.paths["owner-memory"], Ping(), Ok, timeout_s=5)
                return
            except Fault:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise AssertionError(f"memoryd did not start again: {self.last_words()}") from None
                time.sleep(0.01)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(timeout=READY_S)
        self.log.close()
        return code

    def last_words(self) -> str:
        return (self.home / "stderr").read_text(encoding="utf-8")[-3000:]


class Client(threading.Thread):
    """Works on the box until it is told to stop; what it stumbled over is kept."""

    def __init__(self, box: Box) -> None:
        super().__init__(daemon=True)
        self.box = box
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self.box.stop.is_set():
                self.step()
        except Exception as error:  # noqa: BLE001  (the main thread raises it again)
            self.failure = error

    def step(self) -> None:
        """Do one thing."""


class WriterClient(Client):
    """A session that writes as fast as it is answered, and repeats some calls that it got no answer to."""

    def __init__(self, box: Box, number: int) -> None:
        super().__init__(box)
        self.session = f"chat-writer-{number}"
        self.chance = random.Random(number)
        self.sent: dict[str, Sent] = {}
        self.live: list[str] = []
        self.count = 0

    def step(self) -> None:
        self.count += 1
        call = f"c{self.count}"
        arguments, untrusted = self.choose()
        sent = self.sent[call] = Sent(arguments, untrusted, [])
        while not self.box.stop.is_set():
            answer = self.ask(call, sent)
            if answer is not None:
                sent.answers.append((answer.ok, answer.text))
                self.learn(arguments, answer.ok)
                if self.chance.random() < 0.95:
                    return
            else:
                time.sleep(0.02)
                if self.chance.random() < 0.3:
                    return

    def choose(self) -> tuple[dict[str, Any], bool]:
        text = f"{self.session[12:]}.{self.count}"
        kind = self.chance.random()
        file = "memory" if self.chance.random() < 0.7 else "user"
        if kind < 0.2:
            return {"action": "note", "text": f"note {text}"}, self.chance.random() < 0.5
        if kind < 0.25:
            return {"action": "add", "file": file, "text": f"tainted {text}"}, True
        if kind < 0.3:
            return self.consolidate(text), False
        if len(self.live) >= MOST_LIVE or (self.live and kind < 0.4):
            file, old = self.live[0].split(" ", 1)
            if kind < 0.7:
                return {"action": "remove", "file": file, "old": old}, False
            return {"action": "replace", "file": file, "old": old, "text": text}, False
        return {"action": "add", "file": file, "text": text}, False

    def consolidate(self, text: str) -> dict[str, Any]:
        """Made against the file as it is shown now; often stale when it arrives."""
        try:
            shown: MemoryShowReply = ask(self.box.paths["owner-memory"], MemoryShow(), MemoryShowReply, timeout_s=5)
        except Fault:
            return {"action": "note", "text": f"note {text}"}
        entries = text_of.parse(next(file.text for file in shown.files if file.file == "memory.md"))
        fates = ("keep", "keep", "move", "drop")
        items: list[dict[str, Any]] = [{"old": entry, self.chance.choice(fates): True} for entry in entries]
        return {"action": "consolidate", "file": "memory", "entries": [*items, {"text": text}]}

    def ask(self, call: str, sent: Sent) -> ToolResponse | None:
        request = ToolRequest(session=self.session, call=call, tool="memory", arguments=sent.arguments)
        message = MemoryCall(request=request, taint=DataClass.PRIVATE, untrusted=sent.untrusted)
        try:
            answer: ToolResponse = ask(self.box.paths["broker-memory"], message, ToolResponse, timeout_s=10)
        except Fault as fault:
            if fault.code not in {"peer-unreachable", "busy", "memory-unavailable"}:
                raise
            return None
        return answer

    def learn(self, arguments: dict[str, Any], ok: bool) -> None:
        """Keep in mind which entries of mine a file should hold."""
        file, old = arguments.get("file"), arguments.get("old")
        if old is not None and f"{file} {old}" in self.live:
            self.live.remove(f"{file} {old}")
        if ok and arguments["action"] in {"add", "replace"} and not arguments["text"].startswith("tainted"):
            self.live.append(f"{file} {arguments['text']}")


class Hand(Client):
    """An editor of memory.md: it loads the file, changes it, and saves it, by rename or in place."""

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.chance = random.Random(99)
        self.path = box.home / "memory" / "memory.md"
        self.saved: list[list[str]] = []
        self.must_be_listed: list[list[str]] = []

    def step(self) -> None:
        time.sleep(self.chance.uniform(0.001, 0.08))
        loaded = text_of.parse(self.path.read_text(encoding="utf-8"))
        if self.saved and loaded != self.saved[-1]:
            # memoryd has put something in its place, so it has seen what was saved.
            self.must_be_listed.append(self.saved[-1])
        kept = [entry for entry in loaded if not entry.startswith("hand") or self.chance.random() < 0.5]
        self.save([*kept[-60:], f"hand {len(self.saved)}"])

    def save(self, entries: list[str]) -> None:
        text = text_of.render(entries) + self.chance.choice(("", "\n", "\n\n"))
        self.saved.append(entries)
        if self.chance.random() < 0.5:
            beside = self.path.with_name("memory.md~")
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, self.path)
        else:
            with self.path.open("w", encoding="utf-8") as file:
                half = len(text) // 2
                file.write(text[:half])
                file.flush()
                time.sleep(self.chance.choice((0, 0, 0.003)))
                file.write(text[half:])


class Turns(Client):
    """loopd in small: it appends to the logs of a few sessions, and tells memoryd."""

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.chance = random.Random(7)
        self.number = 0

    def step(self) -> None:
        time.sleep(0.01)
        self.number += 1
        session = f"chat-talk-{self.chance.randrange(4)}"
        log = self.box.home / "sessions" / session / "0.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        said = {"kind": "user", "time": "2026-11-30T10:00:00Z", "text": f"turn {self.number}", "author": None}
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")
        try:
            ask(self.box.paths["loop-memory"], SessionUpdated(session=session), Ok, timeout_s=5)
            ask(self.box.paths["loop-memory"], MemoryBlock(), MemoryBlockReply, timeout_s=5)
        except Fault as fault:
            if fault.code not in {"peer-unreachable", "busy"}:
                raise


class Outcome(NamedTuple):
    """What a run did: kills, acknowledged writes, lines of the journal by each author, repeated calls, seconds."""

    kills: int
    acknowledged: int
    by_agent: int
    by_owner: int
    repeated: int
    seconds: float


def run(kills: int, seed: int | None = None) -> Outcome:
    """Kill so often, and check; raises AssertionError with what does not hold."""
    seed = secrets.randbits(32) if seed is None else seed
    began = time.monotonic()
    box = Box(seed)
    try:
        box.start()
        box.wait_until_ready()
        writers = [WriterClient(box, number) for number in range(WRITERS)]
        hand = Hand(box)
        clients: list[Client] = [*writers, hand, Turns(box)]
        for client in clients:
            client.start()
        for _ in range(kills):
            if box.chance.random() < 0.8:
                box.wait_until_ready()
                time.sleep(box.chance.uniform(0, 0.2))
            else:
                # Into the start, where what the last kill left is settled.
                time.sleep(box.chance.uniform(0.05, 0.6))
            box.kill()
            box.start()
        box.wait_until_ready()
        time.sleep(0.2)
        box.stop.set()
        for client in clients:
            client.join()
            if client.failure is not None:
                raise client.failure
        outcome = check(box, writers, hand)
        assert box.end() == 0
    except BaseException:
        print(f"seed {seed}, home {box.home}", file=sys.stderr)
        if box.process is not None and box.process.poll() is None:
            box.kill()
        raise
    shutil.rmtree(box.home)
    return outcome._replace(kills=kills, seconds=round(time.monotonic() - began, 1))


def check(box: Box, writers: list[WriterClient], hand: Hand) -> Outcome:
    """Everything that must hold once all is quiet."""
    ask(box.paths["loop-memory"], MemoryBlock(), MemoryBlockReply)
    lines = journal(box.home)
    check_ids(lines)
    check_agents(lines, writers)
    check_owner(lines, hand)
    check_history(box.home, lines)
    check_notes(box.home, lines)
    verified: VerifyReply = ask(box.paths["owner-memory"], Verify(), VerifyReply)
    assert [state.first_bad for state in verified.journals] == [None] * len(verified.journals), verified
    assert sum(state.lines for state in verified.journals) == len(lines)
    check_index(box)
    answers = [sent.answers for writer in writers for sent in writer.sent.values()]
    return Outcome(
        kills=0,
        acknowledged=sum(1 for each in answers if each and each[0][0]),
        by_agent=sum(1 for line in lines if line["by"] == "agent"),
        by_owner=sum(1 for line in lines if line["by"] == "owner"),
        repeated=sum(1 for each in answers if len(each) > 1),
        seconds=0,
    )


def journal(home: Path) -> list[dict[str, Any]]:
    """Every line of the edit journal; each must be whole."""
    return [
        json.loads(line)
        for path in sorted((home / "memory" / "edits").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def check_ids(lines: list[dict[str, Any]]) -> None:
    ids = [line["id"] for line in lines]
    assert ids == sorted(set(ids), key=lambda each: (each[:10], int(each[11:])))


def check_agents(lines: list[dict[str, Any]], writers: list[WriterClient]) -> None:
    """Acknowledged is journalled, once; what is journalled was asked for; a repeated call has one answer."""
    listed = Counter((line["session"], line["call"]) for line in lines if line["by"] == "agent")
    asked = {(writer.session, call): sent for writer in writers for call, sent in writer.sent.items()}
    assert [key for key, count in listed.items() if count > 1] == []
    assert set(listed) - set(asked) == set()
    for key, sent in asked.items():
        assert len(set(sent.answers)) <= 1, (key, sent)
        if sent.answers:
            assert listed[key] == int(sent.answers[0][0]), (key, sent)
    for line in lines:
        if line["by"] == "agent":
            sent = asked[line["session"], line["call"]]
            assert line["untrusted"] is sent.untrusted
            new = list((Counter(line["after"]) - Counter(line["before"])).elements())
            written = [sent.arguments["text"]] if "text" in sent.arguments else []
            written += [item["text"] for item in sent.arguments.get("entries", []) if "text" in item]
            assert new == written, line


def check_owner(lines: list[dict[str, Any]], hand: Hand) -> None:
    """The owner's lines are exactly versions that the hand saved, each at most once, none overwritten unseen."""
    owner = [line for line in lines if line["by"] == "owner"]
    assert {line["went_to"] for line in owner} <= {"memory.md"}, [
        line for line in owner if line["went_to"] != "memory.md"
    ]
    listed = [line["after"] for line in owner]
    for version in listed:
        assert version in hand.saved, version
    newest = [version[-1] for version in listed]
    assert len(newest) == len(set(newest)), [entry for entry, count in Counter(newest).items() if count > 1]
    for version in hand.must_be_listed:
        assert version in listed, version
    assert hand.saved[-1] in listed


def check_history(home: Path, lines: list[dict[str, Any]]) -> None:
    """The lines of a file follow on each other, and the file is what the last one says."""
    held: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        if line["went_to"] != "notes.md":
            assert line["before"] == held[line["went_to"]], line
            held[line["went_to"]] = line["after"]
    for name, entries in held.items():
        assert text_of.parse((home / "memory" / name).read_text(encoding="utf-8")) == entries
    left = [path.name for path in (home / "memory").iterdir() if path.name.startswith(".")]
    assert left == []


def check_notes(home: Path, lines: list[dict[str, Any]]) -> None:
    """notes.md holds what the journal says went there, once, and nothing else."""
    found = notes_of.parse((home / "memory" / "notes.md").read_text(encoding="utf-8"))
    assert all(note.header is not None for note in found)
    noted = Counter((note.header.session, note.text) for note in found if note.header and note.header.how == "noted")
    said = Counter((line["session"], text) for line in lines if line["went_to"] == "notes.md" for text in line["after"])
    assert noted == said
    gone = Counter((note.header.session, note.text) for note in found if note.header and note.header.how != "noted")
    left: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if line["by"] == "agent" and line["action"] in {"remove", "consolidate"}:
            left.update(
                (line["session"], text) for text in (Counter(line["before"]) - Counter(line["after"])).elements()
            )
    assert gone == left


def check_index(box: Box) -> None:
    """What was indexed bit by bit is what a reindex makes."""
    request = ToolRequest(session="chat-check", call="recall", tool="recall", arguments={"query": "note turn"})
    message = MemoryCall(request=request, taint=DataClass.PRIVATE, untrusted=False)
    ask(box.paths["broker-memory"], message, ToolResponse)
    for number in range(4):
        ask(box.paths["loop-memory"], SessionUpdated(session=f"chat-talk-{number}"), Ok)
    before = indexed(box.home)
    assert before
    ask(box.paths["owner-memory"], Reindex(), Reindexed)
    assert indexed(box.home) == before


def indexed(home: Path) -> list[tuple[Any, ...]]:
    columns = "kind, session, epoch, record, time, role, class, untrusted, text"
    with sqlite3.connect(f"file:{home}/index/memory.sqlite3?mode=ro", uri=True) as connection:
        rows = connection.execute(f"SELECT {columns} FROM sources JOIN hits ON hits.rowid = sources.rowid").fetchall()
    connection.close()
    return sorted(rows, key=repr)


def main(arguments_given: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args(arguments_given)
    outcome = run(arguments.kills, arguments.seed)
    print(
        f"memoryd: {outcome.kills} kills in {outcome.seconds} s; {outcome.acknowledged} acknowledged writes, none lost;"
        f" journal: {outcome.by_agent} lines by sessions, {outcome.by_owner} by the owner's hand, chain whole;"
        f" {outcome.repeated} calls repeated with one answer; reindex equal"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How well and how fast recall finds: the printed lines of `make bench` for the index.

Quality: questions of `data/recall-held-*.txt`, on which nothing was chosen, against all conversations of the folder; the
share whose turn is among the first five hits, beside M5a's letter (quoted terms joined by OR, bm25). Speed: recall and
reindex over logs of invented words in the frequencies of a language, at each size asked for.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal

import apsw
import msgspec

from memoryd.index import Index

DATA: Final = Path(__file__).parent / "data"
SIZES: Final = (10_000, 100_000, 1_000_000)
_FIRST: Final = 5
_QUERIES: Final = 200
_RUNS: Final = 5
_VOCABULARY: Final = 50_000
_RECORDS_PER_LOG: Final = 100
_TERMS_PER_RECORD: Final = (5, 45)
_FIRST_SESSION: Final = datetime(2025, 1, 1, tzinfo=UTC)

# How the two speakers of a conversation stand in a log: both by name, the name in the text, or as owner and assistant.
Manner = Literal["by author", "name in text", "owner and assistant"]
MANNERS: Final[tuple[Manner, ...]] = ("by author", "name in text", "owner and assistant")


class Turn(msgspec.Struct, frozen=True):
    """Who says what; `first` is the one who stands as the owner."""

    name: str
    first: bool
    text: str


class Asked(msgspec.Struct, frozen=True):
    """A question and the number of the turn that answers it."""

    query: str
    turn: int


class Talk(msgspec.Struct, frozen=True):
    """One session of a conversation: when, its turns, and what is asked about them."""

    time: str
    turns: list[Turn]
    asked: list[Asked]


class Found(msgspec.Struct, frozen=True):
    """A question, and who found its turn."""

    query: str
    by_letter: bool
    by_recall: bool


def read_talks(path: Path) -> list[Talk]:
    """The sessions of a data file (its form: `data/README.md`)."""
    talks: list[Talk] = []
    names: list[str] = []
    for line in path.read_text().splitlines():
        match line[:2]:
            case "# ":
                names = line[2:].split(", ")
            case "@ ":
                talks.append(Talk(line[2:], [], []))
            case "? ":
                talks[-1].asked.append(Asked(line[2:], len(talks[-1].turns) - 1))
            case _:
                initial, _, text = line.partition(": ")
                number = next(at for at, name in enumerate(names) if initial in name)
                talks[-1].turns.append(Turn(names[number], number == 0, text))
    return talks


def write_logs(talks: Sequence[Talk], sessions_dir: str, manner: Manner) -> None:
    """Each session as a log, `chat-0000` and on."""
    for number, talk in enumerate(talks):
        records = [_record(turn, f"{talk.time[:17]}{at % 60:02}Z", manner) for at, turn in enumerate(talk.turns)]
        write_log(sessions_dir, f"chat-{number:04}", records)


def write_log(sessions_dir: str, session: str, records: Sequence[dict[str, str | None]]) -> None:
    """One log of these records."""
    os.makedirs(f"{sessions_dir}/{session}")
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    Path(f"{sessions_dir}/{session}/0.jsonl").write_text("".join(lines))


def letter(talks: Sequence[Talk], manner: Manner) -> apsw.Connection:
    """M5a's letter: the text as it is, bm25; row ids count the turns of all talks from 0."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE hits USING fts5(text, tokenize = 'unicode61')")
    texts = [_text(turn, manner) for talk in talks for turn in talk.turns]
    db.executemany("INSERT INTO hits (rowid, text) VALUES (?, ?)", list(enumerate(texts)))
    return db


def letter_finds(db: apsw.Connection, query: str, row: int) -> bool:
    """Whether the letter's first five hold a row."""
    expression = " OR ".join(f'"{term}"' for term in re.findall(r"[^\W_]+", query))
    found = db.execute("SELECT rowid FROM hits WHERE hits MATCH ? ORDER BY rank LIMIT ?", (expression, _FIRST))
    return (row,) in found.fetchall()


def quality(half: str, manner: Manner) -> list[Found]:
    """What the letter and what recall find in the first five."""
    talks, asking = [], []
    for path in sorted(DATA.glob("recall-*.txt")):
        talks += (read := read_talks(path))
        asking += [path.name.startswith(f"recall-{half}")] * len(read)
    rows_before = [0, *accumulate(len(talk.turns) for talk in talks)]
    db = letter(talks, manner)
    found = []
    with tempfile.TemporaryDirectory(prefix="bx") as folder:
        write_logs(talks, f"{folder}/sessions", manner)
        index = Index(f"{folder}/index/memory.sqlite3")
        index.catch_up(f"{folder}/sessions")
        for number, talk in enumerate(talks):
            for asked in talk.asked if asking[number] else ():
                by_letter = letter_finds(db, asked.query, rows_before[number] + asked.turn)
                hits = {(hit.session, hit.record) for hit in index.recall(asked.query, _FIRST).hits}
                found.append(Found(asked.query, by_letter, (f"chat-{number:04}", asked.turn) in hits))
        index.close()
    return found


def quality_line(found: Sequence[Found], about: str) -> str:
    """Shares in percent, and the difference in points."""
    by_letter = 100 * statistics.mean(each.by_letter for each in found)
    by_recall = 100 * statistics.mean(each.by_recall for each in found)
    return (
        f"recall@{_FIRST}  {len(found)} questions, {about:<22} M5a's letter {by_letter:4.1f} %"
        f"  recall {by_recall:4.1f} %  ({by_recall - by_letter:+.1f} points)"
    )


def write_invented(sessions_dir: str, records: int, rng: random.Random) -> list[str]:
    """Logs of invented words, a word's frequency falling with its rank; questions of such words."""
    words = [f"{_syllables(number)}" for number in range(_VOCABULARY)]
    weights = list(accumulate(1 / (rank + 3) for rank in range(_VOCABULARY)))

    def said(low: int, high: int) -> str:
        return " ".join(rng.choices(words, cum_weights=weights, k=rng.randint(low, high)))

    for number in range(records // _RECORDS_PER_LOG):
        log: list[dict[str, str | None]] = []
        # One session begins before the one before it ends.
        begun = _FIRST_SESSION + number * timedelta(minutes=_RECORDS_PER_LOG // 2)
        for at in range(_RECORDS_PER_LOG):
            moment = f"{begun + at * timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
            speaker = {"kind": "assistant", "content": said(*_TERMS_PER_RECORD)}
            if at % 2 == 0:
                speaker = {"kind": "user", "text": said(*_TERMS_PER_RECORD)}
            log.append({"time": moment, **speaker})
        write_log(sessions_dir, f"run-{number:06}", log)
    return [f"what did I say about {said(2, 8)}?" for _ in range(_QUERIES)]


def speed(records: int) -> Iterator[str]:
    """Lines on recall and reindex over so many records."""
    folder = tempfile.mkdtemp(prefix="bx")
    try:
        queries = write_invented(f"{folder}/sessions", records, random.Random(records))
        index = Index(f"{folder}/index/memory.sqlite3")
        begun = time.perf_counter()
        counts = index.rebuild(f"{folder}/sessions", [])
        took_s = time.perf_counter() - begun
        size_mb = os.path.getsize(f"{folder}/index/memory.sqlite3") / 1e6
        yield f"reindex  {counts.records:>9,} records  {counts.records / took_s:>9,.0f} records/s  {size_mb:,.0f} MB"
        runs = [_times_ms(index, queries) for _ in range(_RUNS)]
        index.close()
        p50 = statistics.median(statistics.median(times_ms) for times_ms in runs)
        p95 = statistics.median(statistics.quantiles(times_ms, n=20)[-1] for times_ms in runs)
        yield f"recall   {counts.records:>9,} records  p50 {p50:5.1f} ms  p95 {p95:5.1f} ms  (median of {_RUNS} runs)"
    finally:
        shutil.rmtree(folder)


def main(argv: Sequence[str] = ()) -> int:
    """Print the lines. `--sizes` are numbers of records; `--half dev` shows the questions that were chosen on."""
    parser = argparse.ArgumentParser(description="recall: quality and speed")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--half", choices=["held", "dev"], default="held")
    arguments = parser.parse_args(argv)
    for manner in MANNERS:
        found = quality(arguments.half, manner)
        print(quality_line(found, manner))
        if manner == MANNERS[0]:
            print(
                quality_line([each for each in found if not each.query.isascii()], "of them not in ASCII"), flush=True
            )
    for size in arguments.sizes:
        for line in speed(size):
            print(line, flush=True)
    return 0


def _times_ms(index: Index, queries: Sequence[str]) -> list[float]:
    times_ms = []
    for query in queries:
        begun = time.perf_counter()
        index.recall(query, _FIRST)
        times_ms.append((time.perf_counter() - begun) * 1000)
    return times_ms


def _record(turn: Turn, moment: str, manner: Manner) -> dict[str, str | None]:
    if manner == "owner and assistant" and not turn.first:
        return {"kind": "assistant", "time": moment, "content": turn.text}
    author = turn.name if manner == "by author" else None
    return {"kind": "user", "time": moment, "text": _text(turn, manner), "author": author}


def _text(turn: Turn, manner: Manner) -> str:
    return f"{turn.name}: {turn.text}" if manner == "name in text" else turn.text


def _syllables(number: int) -> str:
    """A word of its own for each number, which no stemming rule changes into another's."""
    word = ""
    while number or not word:
        number, digit = divmod(number, 60)
        word += "bdfgklmnprtv"[digit // 5] + "aeiou"[digit % 5]
    return word + "k"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

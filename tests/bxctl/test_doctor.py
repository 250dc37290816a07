"""`bxctl doctor`: each thing that can be wrong, with the command that mends it and its runbook entry."""

import os
from pathlib import Path

import msgspec
import pytest

from proto.faults import FAULTS, Fault
from proto.labels import DataClass
from proto.messages import broker, egress, loop, memory, wire
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

FILE = memory.MemoryFile(file="memory.md", chars=12, limit=2200, text="an entry", problem=None)
INDEX = memory.IndexState(logs=3, records=1200, notes=4, damaged_logs=[])
SHOWN = memory.MemoryShowReply(files=[FILE], left_out=[], index=INDEX, review=False)
LOCAL = egress.DestinationRow(
    destination="local",
    base_url="unix:x",
    apis=["openai-chat"],
    auths=["key"],
    tunnels=[],
    hosted_tools=[],
    ceiling="secret",
    credential=None,
    ready=True,
)
OPENAI = egress.DestinationRow(
    destination="openai",
    base_url="https://api.openai.com",
    apis=["openai-chat"],
    auths=["key"],
    tunnels=[],
    hosted_tools=[],
    ceiling="private",
    credential="OPENAI_API_KEY",
    ready=False,
)
JOURNAL = wire.JournalState(path="memory/edits/2026-09.jsonl", lines=12, head="f" * 64, first_bad=None)


@pytest.fixture
def well(bxctl: Bxctl, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """The daemons of a home that init has made, with nothing wrong; this machine may have a box of its own."""
    monkeypatch.setattr("bxctl.places._OF_SYSTEM", ())
    assert bxctl("init").code == 0
    return (
        fakes.answer("owner-memory", memory.MemoryShow, SHOWN)
        .answer("owner-memory", wire.Verify, wire.VerifyReply(journals=[JOURNAL]))
        .answer("owner-broker", wire.Verify, wire.VerifyReply(journals=[]))
        .answer("owner-broker", broker.Grants, broker.GrantsReply(grants=[], problems=[]))
        .answer("owner-broker", broker.PolicyShow, broker.PolicyShowReply(modules=[], problem=None))
        .answer("owner-broker", broker.Approvals, broker.ApprovalsReply(approvals=[]))
        .answer(
            "owner-egress", egress.Destinations, egress.DestinationsReply(destinations=[LOCAL, OPENAI], problem=None)
        )
        .answer("owner-egress", egress.Models, egress.ModelsReply(models=[], source=None, problem=None))
        .answer("owner-loop", loop.Sessions, loop.SessionsReply(sessions=[], total=0))
        .answer("owner-loop", loop.Channels, loop.ChannelsReply(channels=[]))
    )


def _problems(bxctl: Bxctl, fakes: Fakes, code: int = 4) -> list[tuple[str, str, str | None]]:
    """What is wrong, what mends it, and the runbook entry."""
    with fakes.serving():
        result = bxctl("doctor", "--json")
        shown = bxctl("doctor")
    assert (result.code, shown.code) == (code, code)
    found = result.json["findings"]
    for one in found:
        assert one["mend"] in shown.out
        assert one["runbook"] is None or f"(runbook: {one['runbook']})" in shown.out
        assert one["runbook"] in {None, *(row.runbook for row in FAULTS.values())}
    return [(f"{one['where']}: {one['what']}", one["mend"], one["runbook"]) for one in found]


def test_nothing_is_wrong(bxctl: Bxctl, well: Fakes) -> None:
    assert _problems(bxctl, well, 0) == []
    with well.serving():
        out = bxctl("doctor").out
    assert out.endswith("\nnothing is wrong\n")
    assert "✓ daemons: memoryd, brokerd, egressd, loopd\n" in out
    assert "✓ memory: memory.md 12/2,200; 1,200 records indexed\n" in out


def test_without_a_home(bxctl: Bxctl, home: Path) -> None:
    result = bxctl("doctor")
    assert result.code == 4
    assert f"there is no box at {home} (runbook: home-missing)\n      → bxctl init\n" in result.out


def test_a_box_of_the_host_that_is_passed_over_is_told_of(
    bxctl: Bxctl, well: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boxmaker-memoryd.service").write_text("ExecStart=/x --home /var/lib/boxmaker serve\n")
    monkeypatch.setattr("bxctl.places._OF_SYSTEM", (str(tmp_path),))
    told = ("home: systemd runs another box, at /var/lib/boxmaker", "bxctl --home /var/lib/boxmaker doctor", None)
    assert _problems(bxctl, well, 0) == [told]


def test_a_box_that_is_not_up_is_one_problem(bxctl: Bxctl) -> None:
    bxctl("init")
    result = bxctl("doctor")
    assert result.code == 4
    assert "no daemon answers: the box is not up (runbook: daemon-unreachable)\n      → bxctl up\n" in result.out
    assert result.out.endswith("\n1 problem\n")


def test_a_daemon_that_does_not_answer(bxctl: Bxctl, fakes: Fakes, home: Path) -> None:
    bxctl("init")
    fakes.up("owner-loop").answer("owner-loop", loop.Sessions, loop.SessionsReply(sessions=[], total=0))
    fakes.answer("owner-loop", loop.Channels, loop.ChannelsReply(channels=[]))
    found = _problems(bxctl, fakes)
    assert [what.split(":")[0] for what, _, _ in found] == ["memoryd", "brokerd", "egressd"]
    assert found[0] == (
        f"memoryd: does not answer at {home}/run/owner-memory/admin.sock",
        f"tail {home}/state/bxctl/up.log",
        "daemon-unreachable",
    )


def test_a_channel_that_is_not_connected(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    state = loop.ChannelState(channel="mattermost", why="HTTP 401 x\x1b[2J", runbook="mattermost-refused")
    well.answer("owner-loop", loop.Channels, loop.ChannelsReply(channels=[state]))
    told = "mattermost: is not connected: HTTP 401 x\\u{1b}[2J"
    assert _problems(bxctl, well) == [(told, f"tail {home}/state/bxctl/up.log", "mattermost-refused")]
    well.answer("owner-loop", loop.Channels, loop.ChannelsReply(channels=[msgspec.structs.replace(state, why=None)]))
    assert _problems(bxctl, well, 0) == []


def test_left_out_entries_are_named_with_their_rule(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    out = memory.LeftOut(file="user.md", number=2, rule=1, reason="a control character", entry="x\x1b[2J")
    full = memory.MemoryFile(file="memory.md", chars=2300, limit=2200, text="", problem="memory.md is over its limit")
    index = memory.IndexState(logs=3, records=1200, notes=4, damaged_logs=["chat-1/0.jsonl"])
    note = memory.UnreadNote(number=7, reason="since it has no header line", text="papaya")
    well.answer(
        "owner-memory",
        memory.MemoryShow,
        memory.MemoryShowReply(files=[full], left_out=[out], index=index, review=False, unread_notes=[note]),
    )
    assert _problems(bxctl, well) == [
        ("memory.md: memory.md is over its limit", f"$EDITOR {home}/memory/memory.md", "memory-unavailable"),
        (
            "user.md: entry 2 is left out of every prompt by rule 1, a control character: x\\u{1b}[2J",
            f"$EDITOR {home}/memory/user.md",
            "memory-unavailable",
        ),
        (
            "notes.md: note 7 is not shown by recall, since it has no header line: papaya",
            f"$EDITOR {home}/memory/notes.md",
            "memory-unavailable",
        ),
        ("index: the log chat-1/0.jsonl could not be read to its end", "bxctl reindex", "memory-index-damaged"),
    ]


def test_prices_that_cannot_be_read(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    well.answer("owner-egress", egress.Models, egress.ModelsReply(models=[], source=None, problem="line 3: models.a"))
    assert _problems(bxctl, well) == [
        ("prices.toml: line 3: models.a", f"$EDITOR {home}/prices.toml", "prices-invalid")
    ]


def test_grants_policy_and_journals(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    bad = wire.JournalState(path="audit/decisions.jsonl", lines=12, head="f" * 64, first_bad=3)
    left_out = broker.PolicyModule(name="rule-7", origin="record", text="", problem="line 2")
    well.answer("owner-broker", broker.Grants, broker.GrantsReply(grants=[], problems=["x.toml: line 1"]))
    well.answer("owner-broker", broker.PolicyShow, broker.PolicyShowReply(modules=[left_out], problem="root.rego: no"))
    well.answer("owner-broker", wire.Verify, wire.VerifyReply(journals=[bad]))
    assert _problems(bxctl, well) == [
        ("grants: x.toml: line 1", f"$EDITOR {home}/grants", "grants-invalid"),
        ("policy: root.rego: no", f"$EDITOR {home}/policy", "policy-invalid"),
        ("rule-7: is left out of the policy: line 2", f"$EDITOR {home}/policy", "policy-invalid"),
        ("audit/decisions.jsonl: the chain is broken at line 3", "bxctl verify", "journal-damaged"),
    ]


def test_the_key_of_the_destination_in_use(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    (home / "config/loopd.toml").write_text('[model]\ndestination = "openai"\nname = "gpt-5"\n')
    assert _problems(bxctl, well) == [
        (
            "openai: new sessions use it, but OPENAI_API_KEY is not set",
            "bxctl credential set OPENAI_API_KEY",
            "credential-missing",
        )
    ]


def test_a_destination_that_grants_toml_has_not(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    (home / "config/loopd.toml").write_text('[model]\ndestination = "nobody"\n')
    assert _problems(bxctl, well) == [
        (
            "model: new sessions want the destination nobody, which grants.toml has not",
            f"$EDITOR {home}/grants.toml",
            "destination-unknown",
        )
    ]


def test_files_that_are_no_toml(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    (home / "config/memoryd.toml").write_text("[memory\n")
    (home / "grants/x.toml").write_text("tool = \n")
    (home / "grants.toml").write_text('[destinations.local]\nbase_url = "ftp://x"\n')
    found = _problems(bxctl, well)
    assert [(mend, runbook) for _, mend, runbook in found] == [
        (f"$EDITOR {home}/config/memoryd.toml", "config-invalid"),
        (f"$EDITOR {home}/grants/x.toml", "grants-invalid"),
        (f"$EDITOR {home}/grants.toml", "rules-invalid"),
    ]


@pytest.mark.parametrize("daemon", ["memoryd", "brokerd", "egressd", "loopd"])
def test_a_setting_that_its_daemon_does_not_know(bxctl: Bxctl, well: Fakes, home: Path, daemon: str) -> None:
    (home / "config" / f"{daemon}.toml").write_text("# mine\n[paths]\nhme = 3\n")
    assert _problems(bxctl, well) == [
        (
            f"config/{daemon}.toml: line 3: paths.hme: unknown key",
            f"$EDITOR {home}/config/{daemon}.toml",
            "config-invalid",
        )
    ]


def test_a_problem_is_said_once_and_its_command_can_be_typed(
    bxctl: Bxctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOXMAKER_HOME")
    mine = home / "my box"
    bxctl("--home", str(mine), "init")
    (mine / "config/loopd.toml").write_text("[model\n")
    out = bxctl("--home", str(mine), "doctor").out
    assert f"      → bxctl --home '{mine}' up\n" in out
    assert f"      → $EDITOR '{mine}/config/loopd.toml'\n" in out
    (line,) = [line for line in out.splitlines() if "not TOML" in line]
    assert (line.count("config/loopd.toml"), line.count("runbook")) == (1, 1)


def test_a_variable_that_names_no_model(bxctl: Bxctl, well: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOXMAKER_MODEL", "gpt-5")
    ((what, mend, runbook),) = _problems(bxctl, well)
    assert what.startswith("model: BOXMAKER_MODEL=gpt-5: must be <destination>/<model>")
    assert (mend, runbook) == ("unset BOXMAKER_MODEL", "config-invalid")


def test_modes_that_let_others_in(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    home.chmod(0o755)
    (home / "credentials.env").chmod(0o644)
    assert _problems(bxctl, well) == [
        (".: mode 755: others can reach it", f"chmod go= {home}", None),
        ("credentials.env: mode 644: others can reach it", f"chmod go= {home}/credentials.env", None),
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_is_another_users_is_found_however_deep(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    deep = home / "memory" / "edits" / "2026-09.jsonl"
    deep.parent.mkdir(parents=True)
    deep.write_text("")
    os.chown(deep, 65534, 65534)
    assert _problems(bxctl, well) == [
        (
            "memory: memory/edits/2026-09.jsonl belongs to the user 65534, and not to 0",
            f"sudo chown -R 0 {home}/memory",
            "start-failed",
        )
    ]


def test_sessions_that_cannot_go_on(bxctl: Bxctl, well: Fakes) -> None:
    sessions = [
        loop.SessionSummary(
            session=f"chat-{state}",
            began="",
            updated="",
            records=1,
            first="",
            state=state,
            class_=DataClass.PRIVATE,
            untrusted=False,
        )
        for state in ("open", "busy", "full", "damaged", "lost")
    ]
    well.answer("owner-loop", loop.Sessions, loop.SessionsReply(sessions=sessions, total=5))
    assert _problems(bxctl, well) == [
        ("chat-damaged: its log is damaged", "bxctl chat", "session-damaged"),
        ("chat-lost: its label is lost", "bxctl reopen chat-lost", "session-state-lost"),
    ]


def test_a_waiting_approval_is_no_problem(bxctl: Bxctl, well: Fakes) -> None:
    waiting = broker.Approval(
        approval="ap-0123456789abcdef",
        session="chat-1",
        call="c",
        tool="http_fetch",
        text="http_fetch x",
        asked="",
        expires="",
        class_=DataClass.PRIVATE,
        untrusted=False,
    )
    well.answer("owner-broker", broker.Approvals, broker.ApprovalsReply(approvals=[waiting]))
    assert _problems(bxctl, well, 0) == [
        ("ap-0123456789abcdef: http_fetch x", "bxctl approve ap-0123456789abcdef", None)
    ]


def test_a_look_that_fails_is_a_problem_and_the_others_go_on(bxctl: Bxctl, well: Fakes, home: Path) -> None:
    well.answer("owner-broker", broker.Grants, Fault("internal"))
    (found,) = _problems(bxctl, well)
    assert found == ("grants: " + FAULTS["internal"].sentence, f"tail {home}/state/bxctl/up.log", "internal")


def test_a_home_too_deep_for_its_sockets(bxctl: Bxctl, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = home / ("d" * 90)
    monkeypatch.setenv("BOXMAKER_HOME", str(deep))
    refused = bxctl("init")
    assert refused.code == 1
    assert "bytes too long for the address of a socket in it (runbook: socket-path-too-long)" in refused.err
    assert not deep.exists()
    (deep / "config").mkdir(parents=True)
    (deep / "grants.toml").touch()
    result = bxctl("doctor")
    assert "too long for the address of a socket (runbook: socket-path-too-long)" in result.out

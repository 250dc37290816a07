"""Every refusal and fault that has a code: its sentence, and the runbook entry that says what the owner can do.

A *refusal* is an answer; a *fault* is damage or an unreachable peer, and becomes an `error` frame at one place
(`role.serve`). The sentence here is the default; where a daemon knows more (which file, which line) it says more.
"""

from typing import Final, NamedTuple


class Row(NamedTuple):
    """A code's fixed sentence and its heading in `docs/runbook.md`, or None where the owner has nothing to do."""

    sentence: str
    runbook: str | None


FAULTS: Final[dict[str, Row]] = {
    # The wire.
    "frame-too-large": Row("the frame is longer than 1 MiB", None),
    "frame-empty": Row("the frame is empty", None),
    "frame-torn": Row("the frame did not arrive whole within 5 seconds", None),
    "frame-undecodable": Row("the frame is not a message of this socket", None),
    "kind-unknown": Row("this socket does not answer that kind of message", None),
    "peer-refused": Row("this socket does not serve that user", "peer-refused"),
    "busy": Row("too many connections; try again", "busy"),
    "internal": Row("the daemon failed on this request; its log says why", "internal"),
    "peer-unreachable": Row("the daemon does not answer", "daemon-unreachable"),
    "reply-unexpected": Row("the daemon gave an answer of the wrong kind", "internal"),
    # How any daemon starts.
    "config-invalid": Row("the configuration cannot be used", "config-invalid"),
    "socket-in-use": Row("another daemon already serves this socket", "socket-in-use"),
    "socket-not-ours": Row("there is something at the socket's path that is not a socket", "socket-not-ours"),
    "socket-path-too-long": Row("the path is too long for a socket address", "socket-path-too-long"),
    "start-failed": Row("the daemon cannot start", "start-failed"),
    "journal-damaged": Row("the chain of a journal is broken", "journal-damaged"),
    "home-newer": Row("the home was written by a newer boxmaker", "home-newer"),
    "backup-changed": Row("a file was changed while it was read; try again", None),
    # memoryd.
    "memoryd-start-failed": Row("configuration, memory/ or index/ cannot be used", "memoryd-start-failed"),
    "memory-unavailable": Row("the memory block cannot be served", "memory-unavailable"),
    "memory-index-damaged": Row("the index is damaged; rebuild it with bxctl reindex", "memory-index-damaged"),
    "memory-refused": Row("the request is refused", None),
    # brokerd.
    "brokerd-start-failed": Row("brokerd's state cannot be used", "brokerd-start-failed"),
    "memoryd-unreachable": Row(
        "memoryd did not answer; the call was not confirmed (runbook: memoryd-unreachable)",
        "memoryd-unreachable",
    ),
    "egressd-unreachable": Row(
        "egressd did not answer; the call was not confirmed (runbook: egressd-unreachable)",
        "egressd-unreachable",
    ),
    "runtime-absent": Row("refused: no runtime is installed for this tool (runbook: runtime-absent)", "runtime-absent"),
    "grants-invalid": Row("refused: the grants cannot be read (runbook: grants-invalid)", "grants-invalid"),
    "rules-invalid": Row("refused: grants.toml cannot be read (runbook: rules-invalid)", "rules-invalid"),
    "policy-invalid": Row("refused: the policy cannot be used (runbook: policy-invalid)", "policy-invalid"),
    "session-state-lost": Row(
        "the session's label is lost; the owner can reopen it as secret and untrusted",
        "session-state-lost",
    ),
    "session-exists": Row("a session of that id is there already", None),
    "session-not-open": Row("refused: the session is not open", None),
    "approval-unknown": Row("no approval of that id waits for an answer", None),
    # loopd.
    "session-unknown": Row("there is no session of that id", None),
    "session-busy": Row("the session is in the middle of a turn", None),
    "session-damaged": Row("the session's log is damaged", "session-damaged"),
    "session-full": Row("this session is full; start a new one, and what it learned stays in memory", "session-full"),
    "brokerd-unreachable": Row("brokerd does not answer, so nothing can be decided", "brokerd-unreachable"),
    "model-unavailable": Row("the model cannot be reached", "model-unavailable"),
    "model-error": Row("the model refused the request", "model-error"),
    "text-empty": Row("there is nothing to answer: the text is empty", None),
    "text-too-long": Row("the text is too long for one message", None),
    "turn-stopped": Row("the turn was stopped", None),
    "mattermost-unreachable": Row("the connection to Mattermost is broken", "mattermost-unreachable"),
    "mattermost-refused": Row("the bot is refused by Mattermost", "mattermost-refused"),
    "mattermost-not-posted": Row("a post cannot be put into its thread", "mattermost-not-posted"),
    "mattermost-ledger": Row("what loopd keeps of Mattermost's posts cannot be used", "mattermost-ledger"),
    # egressd.
    "egressd-start-failed": Row("egressd's state cannot be used", "egressd-start-failed"),
    "destination-unknown": Row("no destination of that name is configured", "destination-unknown"),
    "ceiling": Row("refused: the session's label is above the ceiling of the destination", "ceiling"),
    "channel-ceiling": Row(
        "refused: the session's label is above the ceiling of the Mattermost channel", "channel-ceiling"
    ),
    "spend": Row("refused: the call could pass a spend limit of the destination", "spend"),
    "unpriced": Row("refused: the destination has a limit in dollars, and the model has no price", "unpriced"),
    "hosted-tool": Row("refused: the request names a tool that the provider runs", "hosted-tool"),
    "auth-unsupported": Row("refused: this way to authorise calls is not supported here", "auth-unsupported"),
    "tunnel-host": Row("refused: the destination has no tunnel to this host and port", "tunnel-host"),
    "tunnel-hello": Row(
        "refused: what came through the tunnel does not name the host that was allowed", "tunnel-hello"
    ),
    "session-closed": Row("refused: the session's socket is closed", None),
    "websocket": Row("this door speaks no WebSocket; use plain HTTP", None),
    "prices-invalid": Row("prices.toml cannot be used", "prices-invalid"),
    "kept-refused": Row("the piece does not fit what was handed over so far", None),
    "kept-unknown": Row("nothing of that kind, session and call is kept", None),
    "credential-missing": Row("the destination's credential is not set", "credential-missing"),
    "upstream-unreachable": Row("the destination does not answer", "upstream-unreachable"),
    "request-invalid": Row("the request is not one that is relayed", None),
    "request-too-large": Row("the request is larger than what is relayed", None),
    "route-unknown": Row("the API has no such method and path", None),
    # bxctl.
    "home-missing": Row("there is no box here yet; make one with bxctl init", "home-missing"),
    "box-is-up": Row("a box is up already on this home", None),
    "install-failed": Row("the box cannot be installed on this host", "units"),
    "backup-failed": Row("the backup cannot be written", "backup-failed"),
    "backup-invalid": Row("the file is no backup that can be used", "backup-invalid"),
    "restore-failed": Row("the home cannot be restored; it is as it was", "restore-failed"),
}


class Fault(Exception):
    """A fault with a code of the table; the message is the table's sentence unless one that says more is given."""

    def __init__(self, code: str, message: str | None = None) -> None:
        row = FAULTS[code]
        self.code = code
        self.message = row.sentence if message is None else message
        self.runbook = row.runbook
        super().__init__(self.message)

    def __str__(self) -> str:
        """The sentence, and where to read on."""
        return (
            f"{self.message} (runbook: {self.runbook})"
            if self.runbook and "runbook:" not in self.message
            else self.message
        )

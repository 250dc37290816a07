"""loopd runs sessions: the turn loop between the owner, the model and the tools.

OWNS
    sessions/<id>/0.baseline.json: system prompt with the memory block, tools array, model; frozen.
    sessions/<id>/0.jsonl: the session's log, append-only, fsynced record by record.
    state/loopd/turns/: which turns without an answer are not to be resumed, and which sessions are full.
    state/loopd/mattermost/: how far each channel is handled, and which post a thread has in work; see
    `channels.mattermost`.
READS
    loopd.toml. Nothing that another daemon writes.
ANSWERS
    run/owner-loop/admin.sock, bxctl: chat, chat_stop, sessions, session_log, channels, approval_answer, backup.
CALLS
    memoryd: memory_block when a session begins; session_updated after a finished turn, best effort.
    brokerd: session_open before a session's first record and before each turn; session_label before a text of
    somebody else is logged; tool_request; approval_answer; approval_ignored.
    egressd, HTTP: POST /<destination>/v1/chat/completions; with [mattermost] enabled, Mattermost's REST and WebSocket.
NEVER
    Runs a tool that reads or changes anything: clock and find_tool alone are its own.
    Decides, or sets a label: it shows what brokerd says.
    Changes a record that is written. The prompt of a later turn begins with the bytes of the earlier one.
    Begins a session without the memory block, or goes on with one whose log is damaged or whose label is lost.
FAULTS
    memory-unavailable, brokerd-unreachable, session-state-lost: no turn begins.
    session-unknown, session-busy, session-damaged, session-full, text-empty, text-too-long: the text is not taken.
    model-unavailable, model-error, ceiling, credential-missing, destination-unknown, upstream-unreachable: the turn
    ends without an answer, and the session goes on.
    turn-stopped: the owner ended the turn.
    mattermost-unreachable, mattermost-refused: tried again. mattermost-not-posted: the answer stays in the log alone.
    mattermost-ledger: the channel does not run; the rest does.
"""

"""memoryd: everything remembered.

OWNS
    memory/: soul.md, memory.md, user.md, notes.md, the edit journal, what waits for review, the recall log;
    index/: the full-text index, disposable; state/memoryd/: the intent of a change, the journal's head, last answers;
    record/<domain>/.contexts, .transcripts and .sources: kept material, until its time has come.

READS
    sessions/, loopd's logs, to index them. Its configuration, and the starter of soul.md beside that.

ANSWERS
    run/loop-memory/memory.sock: memory_block, session_updated.
    run/broker-memory/memory.sock: memory_call, a decided call of recall or memory.
    run/owner-memory/admin.sock: reindex, memory_admin, edits, pending_edits, memory_show, verify, kept_list, kept_show,
    kept_erase, backup.
    run/egress-memory/context.sock: keep_whole, keep_begin, keep_piece, keep_end: decision contexts are handed over,
    none is read.

CALLS
    nobody.

NEVER
    opens a network connection; writes another daemon's files; changes soul.md; overwrites what a hand edited; shows a
    new session an entry that fails the check; lets a session that read untrusted or secret content change identity;
    indexes kept material, or shows it to anybody but the owner.

FAULTS
    memoryd-start-failed: its folders cannot be used. memory-unavailable: a file of memory/ is over its limit or cannot
    be read, or the disk refuses. memory-index-damaged: recall needs `bxctl reindex`. memory-refused: the owner's
    command is refused, with the reason. journal-damaged: the chain of the edit journal is broken; the daemon goes on.
"""

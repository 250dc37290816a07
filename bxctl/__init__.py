"""bxctl: the owner's client.

OWNS     `state/bxctl/`: the history of the chat prompt, the log of `bxctl up`, the lock that keeps a second one away.
         Once, by `bxctl init`, the owner's files: `config/`, `grants.toml`, `grants/`, `policy/`, `credentials.env`.
READS    those files, to say what is wrong with them; nothing that a daemon wrote.
ANSWERS  nobody.
CALLS    memoryd, brokerd, egressd, loopd on their owner sockets, `run/owner-…`.
NEVER    decides, labels or keeps anything; shows a text that somebody else wrote without escaping it.
FAULTS   a daemon's fault is printed as its sentence and its runbook entry; `exits` lists the exit codes.

`cli` is the entry: it answers `--help` and the commands of memory by itself (`quick`), for those must start at once,
and hands all else to `app`, which is the only place that knows typer's tree. `commands/<noun>` has one function a verb.
"""

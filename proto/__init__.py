"""What two daemons must agree on, and how any daemon runs.

The wire (`frame`, `messages`, `faults`), the values on it (`labels`, `ids`, `tools`, `escape`), bytes that two
daemons must compute alike (`canon`, `chain`), the tables of what lies where (`home`, `sockets`, `rules`), and
`role`, which runs a daemon and knows no word of what the daemon is for. Nothing here knows any daemon.
"""

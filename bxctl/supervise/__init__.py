"""`bxctl up`: the daemons of one box as processes, under one log, for as long as this process lives.

`plan` says what runs and how it is asked whether it is ready (data); `processes` runs it; `log` makes one readable log
of theirs; `tie` is the program through which each is started, so that none outlives this process.
"""

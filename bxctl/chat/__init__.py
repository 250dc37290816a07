"""`bxctl chat`: a conversation on a terminal, in a pipe, or of one question.

`turn` runs one turn over loopd's stream of events: it answers approvals and hears ^C. What an event looks like is
`screen`'s on a terminal, `view`'s elsewhere and in JSON. `talk` is the conversation, `once` the one question.
"""

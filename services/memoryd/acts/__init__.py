"""What memoryd does, one verb a module: where its holdings meet.

An act is a plain function that runs in a thread. Those that touch the files of memory/ run one at a time, in the order
in which they were asked for (`desk.turns`).
"""

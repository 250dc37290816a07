"""Who the agent is and what it wrote down: the files of memory/, every change of them, and what waits for the owner.

This holding knows nothing of the check, the index, the answers or the sockets.
"""

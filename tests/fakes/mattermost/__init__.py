"""A Mattermost server for tests: REST and WebSocket as the real one's, over loopback TCP.

Features: users, a bot, one team, channels (open, private, direct); posts with threads, edits, deletions, props, files,
reactions, typing, deduplication by `pending_post_id`; lists of posts by page, `since`, `after`, `before`; threads by
page; login by token or password; errors in the server's shape; WebSocket with authentication by header or by
`authentication_challenge`, `hello`, numbered events, resumption by `connection_id` and `sequence_number`, ping and pong.
What can go wrong on purpose is in `faults` and in the methods of `FakeMattermost`.

Run by itself: `python -m tests.fakes.mattermost --port N`.
"""

from tests.fakes.mattermost.server import FakeMattermost

__all__ = ["FakeMattermost"]

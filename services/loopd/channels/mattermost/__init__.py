"""Mattermost: each thread with the bot is a session, `mm-<root post id>`, and each post is handled once.

The way of a post:

    link      the WebSocket's life: connecting, greeted, silent, broken, waiting to try again      (pure)
    feed      events and pages of a channel's posts; each post is handed over once, in order       (pure)
    whom      who is answered, and which words and reactions are no post but an order              (pure)
    threads   the posts of each thread one after the other, several threads at once
    turns     one post: what came before it, its turn, its answer
    growing   the posts that an answer is to become, while the model still speaks                  (pure)
    division  an answer cut into posts                                                             (pure)
    asked     what waits for the owner in a thread, and who may say yes                            (pure)
    server    the calls of Mattermost's REST that are made, and what becomes of their failures
    ledger    what is kept: how far a channel is handled, and which post a thread has in work
    channel   all of it put together

Never twice, never lost. The server is the queue. `state/loopd/mattermost/channels/<id>.json` holds a *mark*, up to
which every post of the channel is done with, and the ids of those that are done beyond it. A post's id is put there
when all that comes of it is done. Before a post's record is put into a session's log, the thread's file says which
post becomes the record of which number, with the hash of its text. So a crash at any instant leaves one of these, and
the next start, which reads every post after the mark again, can tell them apart:

    the thread's file names no such post, or a record that the log has not  the post was not heard: it is said now
    the log has that record, and no answer after it                         the turn is taken up where it stands
    the log has the answer                                                  the thread is searched for what was posted
                                                                            of it, and the rest is posted
    the channel's file names the post                                       all is done
"""

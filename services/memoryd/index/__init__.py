"""The full-text index over session logs and notes.md, and the search of `recall` (M5a section 6).

Disposable: everything in it comes from the files. It knows nothing of sockets, journals or the recall log.
"""

from memoryd.index.hits import Counts, Hit, NoteEntry, RecallAnswer, UntrustedMode
from memoryd.index.index import Breathe, Index

__all__ = ["Breathe", "Counts", "Hit", "Index", "NoteEntry", "RecallAnswer", "UntrustedMode"]

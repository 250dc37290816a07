"""Kept material: decision contexts, transcripts and sources, byte for byte, until their time has come.

One holding of three names, `record/<domain>/.<kept>/<session>/`: what is said of an item is `<call>.json`, its bodies
lie beside it as `<call>.<part>`. Laws (tested): an item exists when its `.json` does, and then all of its bodies do; an
erased one has none, and says why; whatever a crash leaves, the next start makes one of the two of it. Neither the index
nor a search ever looks here, and nobody but the owner is answered.
"""

from memoryd.kept.holding import Holding
from memoryd.kept.inbox import Inbox

__all__ = ["Holding", "Inbox"]

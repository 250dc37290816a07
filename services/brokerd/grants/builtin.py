"""The two built-in grants, always present: reading and writing memory is what an agent is (M5a section 8)."""

from typing import Final

from brokerd.grants.grant import RESERVED_PREFIX, Grant, GrantFile
from proto.canon import digest
from proto.role.config import parse

_TEXT: Final = """\
# built in: {tool}
tool = "{tool}"
mode = "auto"
max_taint = "secret"
result_class = "private"
untrusted = false
"""


def _built_in(tool: str) -> Grant:
    grant, text = f"{RESERVED_PREFIX}{tool}", _TEXT.format(tool=tool)
    return Grant(grant, digest(text.encode()), parse(text, grant, GrantFile))


BUILT_IN: Final = (_built_in("recall"), _built_in("memory"))

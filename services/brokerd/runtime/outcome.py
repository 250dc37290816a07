"""What a runtime gives back."""

import msgspec

from proto.labels import Label


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A result, or a failure told as one. `label` is the runtime's own; None when it says nothing about it.

    `granted` says that the text came from what the call reached, so that the grant's label holds for it too.
    """

    ok: bool
    text: str
    label: Label | None = None
    granted: bool = True


class Redirect(msgspec.Struct, frozen=True):
    """A hop of a fetch sends elsewhere; `url` is the next one, not yet decided."""

    url: str

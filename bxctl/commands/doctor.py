"""`bxctl doctor`: what is wrong with the box, and what mends it."""

import os
from collections.abc import Iterator

from bxctl import exits, render
from bxctl.checks import Finding, Looked, daemons, files, units
from bxctl.options import AdminSocket, Home, Json, MemorySocket
from bxctl.places import Box, find


def doctor(
    home: Home = None,
    memory_socket: MemorySocket = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """Look at the home, the settings and every daemon; exits 4 when something is wrong.

    Each problem comes with the one command that mends it and its entry in docs/runbook.md.

    Example: bxctl doctor --json
    """
    box = find(home, memory_socket, admin_socket)
    looked = []
    for one in _looks(box):
        looked.append(one)
        if not json:
            _show(one)
    problems = [finding for one in looked for finding in one.findings if finding.level == "problem"]
    if json:
        seen = [{"at": one.at, "saw": one.saw} for one in looked]
        findings = [finding._asdict() for one in looked for finding in one.findings]
        render.as_json({"home": str(box.home), "ok": not problems, "looked": seen, "findings": findings})
    else:
        print(f"\n{len(problems)} problem{'s' if len(problems) != 1 else ''}" if problems else "\nnothing is wrong")
    return exits.PROBLEMS if problems else exits.OK


def _looks(box: Box) -> Iterator[Looked]:
    yield files.machine()
    yield files.home(box)
    if box.made:
        yield files.settings(box)
    model, wanted = files.model(box, os.environ)
    if box.made:
        yield model
    yield from units.looks(box)
    answering, rows = daemons.answering(box)
    if box.made or rows:
        yield answering
    yield from daemons.looks(box, rows, wanted)


def _show(one: Looked) -> None:
    colours = render.coloured()
    level = {finding.level for finding in one.findings}
    mark, colour = ("✗", "red") if "problem" in level else ("!", "yellow") if level else ("✓", "green")
    render.marked(render.paint(mark, colour, on=colours), f"{one.at}: {one.saw}")
    for finding in one.findings:
        _show_finding(finding)


def _show_finding(finding: Finding) -> None:
    pointer = f" (runbook: {finding.runbook})" if finding.runbook else ""
    render.line(f"    {finding.where}: {finding.what}{pointer}")
    render.line(f"      → {finding.mend}")

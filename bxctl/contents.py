"""What there is: every command with its one line, and the page of `bxctl --help`.

The page is made from this table without typer, which takes longer to load than the page takes to read.
"""

from typing import Final, NamedTuple

from bxctl import exits

ABOUT: Final = "The owner's client of a box."


class Group(NamedTuple):
    """Commands that belong together, by name with their one line."""

    title: str
    commands: dict[str, str]


GROUPS: Final = (
    Group(
        "begin",
        {
            "run": "set the box up if need be, start it, and chat; or answer one question and end",
            "init": "make a home: starter configuration, grants, policy folder",
            "up": "start the daemons, show one log, restart what dies, stop all on ^C",
            "install": "put the box on this host as hardened units of systemd",
            "uninstall": "take the units and programs away; what is remembered stays",
        },
    ),
    Group(
        "talk",
        {
            "chat": "talk with the box that is up",
            "sessions": "list the sessions, or show the log of one",
        },
    ),
    Group(
        "memory",
        {
            "memory": "log, undo, show; with review on: pending, accept, reject",
            "context": "the model calls that were kept: list, show to the byte, erase",
            "reindex": "build the index anew from the logs and notes",
        },
    ),
    Group(
        "decisions",
        {
            "approvals": "the tool calls that wait for you",
            "approve": "allow a waiting call",
            "deny": "refuse a waiting call",
            "decisions": "what was decided last, and why",
            "grants": "the tool grants in force",
            "policy": "show the policy, or ask it about a made-up call",
            "reopen": "reopen a session whose label was lost, as secret and untrusted",
        },
    ),
    Group(
        "state",
        {
            "usage": "calls and tokens, by destination and model",
            "cost": "what sessions cost, in dollars and in tokens without a price",
            "models": "the models that were used or have a price, or a destination's own list",
            "prices": "what models cost; import takes LiteLLM's public list",
            "destinations": "where bytes may go, and whether each has its key",
            "credential": "the keys of destinations: set, list, remove",
            "verify": "check the chains of every journal",
            "doctor": "find what is wrong, and the command that mends each",
            "backup": "everything that the box keeps in one file, while it works on",
            "restore": "the home of a backup in the place of the one there, which is kept",
        },
    ),
)


def one_line(command: str) -> str:
    """The line of a command.

    Raises:
        KeyError: there is no such command.

    """
    return next(group.commands[command] for group in GROUPS if command in group.commands)


def page() -> str:
    """The page of `bxctl --help`."""
    lines = ["usage: bxctl [--home PATH] COMMAND …", "", ABOUT, ""]
    for group in GROUPS:
        lines.append(f"{group.title}:")
        lines += [f"  {name:<13} {about}" for name, about in group.commands.items()]
        lines.append("")
    lines += [
        "options:",
        "  --home PATH          the box's home (default: $BOXMAKER_HOME, then ~/.local/share/boxmaker)",
        "  --version            which bxctl this is",
        "  --install-completion completion for your shell",
        "",
        "examples:",
        '  bxctl run "remember that the launch moved to Thursday"',
        "  bxctl memory log",
        "  bxctl chat --help",
        "",
        "exit codes:",
        *(f"  {code:<4} {meaning}" for code, meaning in exits.MEANINGS.items()),
    ]
    return "\n".join(lines) + "\n"

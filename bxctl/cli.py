"""The entry of bxctl: what must start at once is answered here, all else by typer.

A fault becomes a sentence on standard error and an exit code here and nowhere else.
"""

import gc
import os
import sys


def main() -> int:
    """Run the command line; the exit code."""
    argv = sys.argv[1:]
    if argv in ([], ["--help"], ["-h"], ["help"]) and "_BXCTL_COMPLETE" not in os.environ:
        from bxctl import contents

        sys.stdout.write(contents.page())
        return 0
    # Nothing that a quick command imports is garbage, and nothing need be looked through at its end.
    gc.disable()
    try:
        return _told(argv)
    finally:
        gc.freeze()
        gc.enable()


def _told(argv: list[str]) -> int:
    """Run the command line; a fault as its sentence and its exit code."""
    from bxctl import exits
    from proto.faults import Fault

    try:
        return _with_what_it_needs(argv)
    except Fault as fault:
        from bxctl import render

        render.problem(str(fault))
        return exits.of_fault(fault.code)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it; nothing may be flushed into the closed pipe at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK


def _with_what_it_needs(argv: list[str]) -> int:
    """Run the command; where a box is not up, again, with the daemon that it could not ask."""
    from bxctl.places import Unreachable

    try:
        return _dispatch(argv)
    except Unreachable as fault:
        if not fault.box.made:
            raise
        from bxctl.supervise.brief import Brief

        with Brief() as brief:
            while brief.start(fault.box, fault.row):
                try:
                    return _dispatch(argv)
                except Unreachable as another:
                    fault = another
            raise fault from None


def _dispatch(argv: list[str]) -> int:
    if "_BXCTL_COMPLETE" not in os.environ:
        from bxctl import quick

        code = quick.run(argv)
        if code is not None:
            sys.stdout.flush()
            return code
    gc.enable()
    from bxctl import app

    return app.run(argv)


if __name__ == "__main__":
    sys.exit(main())

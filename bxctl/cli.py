"""The entry of bxctl: what must start at once is answered here, all else by typer.

A fault becomes a sentence on standard error and an exit code here and nowhere else.
"""

import gc
import os
import sys


def main() -> int:
    """Run the command line; the exit code."""
    argv = sys.argv[1:]
    if argv == ["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"bxctl {version('boxmaker')}\n")
        return 0
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
    from bxctl import exits, render
    from proto.faults import Fault

    try:
        " ".join(argv).encode()
        code = _with_what_it_needs(argv)
        sys.stdout.flush()
    except Fault as fault:
        render.problem(str(fault))
        return exits.of_fault(fault.code)
    except UnicodeError:
        render.problem("what was given, on the command line or on standard input, is not UTF-8 text")
        return exits.USAGE
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it.
        _write_no_more()
        return exits.OK
    except Exception as error:
        if os.environ.get("BOXMAKER_DEBUG") == "1":
            raise
        render.problem(f"{_unexpected(error)}; BOXMAKER_DEBUG=1 shows where")
        _write_no_more()
        return exits.FAILED
    return code


def _unexpected(error: Exception) -> str:
    said = " ".join(str(error).split()) or "no more is known"
    return f"something unexpected went wrong: {type(error).__name__}: {said}"


def _write_no_more() -> None:
    """Nothing is flushed at the end into what takes no more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_what_it_needs(argv: list[str]) -> int:
    """Run the command; where a box is not up, again, with the daemon that it could not ask."""
    from bxctl.places import Unreachable

    try:
        return _dispatch(argv)
    except Unreachable as fault:
        if not fault.box.made:
            if fault.box.memory_socket is None and fault.box.admin_socket is None:
                fault.box.need()
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
            return code
    gc.enable()
    from bxctl import app

    return app.run(argv)


if __name__ == "__main__":
    sys.exit(main())

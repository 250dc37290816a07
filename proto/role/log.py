"""The log of a daemon: one JSON object a line on standard error, by structlog. No text of a session goes into it."""

import sys
from typing import Final

# structlog draws tracebacks with rich when it can import it. No daemon draws, and rich was half of a daemon's start:
# None makes the import fail.
_drawing = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    if _drawing is None:
        del sys.modules["rich"]
    else:
        sys.modules["rich"] = _drawing

Logger = structlog.typing.FilteringBoundLogger
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def start(daemon: str, level: str = "info") -> Logger:
    """Set the log up, and give the daemon's logger."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logger: Logger = structlog.get_logger(daemon=daemon)
    return logger


def logger() -> Logger:
    """The logger of the daemon that runs."""
    found: Logger = structlog.get_logger()
    return found

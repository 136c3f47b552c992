"""Logs as JSON lines: one for each request, with its id, and none of what was asked."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

FIELDS = ("request_id", "method", "route", "status", "ms", "client", "key", "job", "collection")


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        form = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        form |= {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        if record.exc_info:
            form["traceback"] = self.formatException(record.exc_info)
        return json.dumps(form, default=str)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Write the logs of the server and of uvicorn to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("isthmus.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("uvicorn.error").handlers = []
    logging.getLogger("uvicorn.error").propagate = True

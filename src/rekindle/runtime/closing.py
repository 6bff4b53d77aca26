"""The closing of the sinks of a task, at the end of each of its attempts.

Prepared rows are in batch records, and committed rows are in the target. So nothing is lost if the ``close()`` of a
sink raises, or never returns: the log reports it, and the task continues.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from rekindle.errors import one_line
from rekindle.runtime.pauses import USUAL
from rekindle.runtime.worker import join_all
from rekindle.sinks import TwoPhaseSink

_LOG = logging.getLogger(__name__)


def close_sinks(sinks: Mapping[str, TwoPhaseSink], close_s: float = USUAL.close_s) -> None:
    """Close the sinks side by side; return when all are closed, or after `close_s`. Never raises.

    Args:
        sinks: uid → sink.
    """
    threads = {
        uid: threading.Thread(target=_close, args=(uid, sink), name=f"close-{uid}", daemon=True)
        for uid, sink in sinks.items()
    }
    for thread in threads.values():
        thread.start()
    join_all(threads.values(), close_s)
    for uid, thread in threads.items():
        if thread.is_alive():
            _LOG.warning("Sink %s is still closing after %g s; the job does not wait for it", uid, close_s)


def _close(uid: str, sink: TwoPhaseSink) -> None:
    try:
        sink.close()
    except (Exception, SystemExit) as error:
        _LOG.warning("Sink %s could not be closed: %s", uid, one_line(error))

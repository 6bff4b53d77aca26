"""A driver's cost of statistics, measured inside it: windows with and without them differ by less than their noise.

    python bench/statistics_inside.py [--subtasks 1] [--seconds 60] [--settle 30] [--rows-every 1]

The job is that of `statistics_cost.py`. Each thread's own CPU clock is read around whatever makes statistics: what
the history and the heartbeat hear, the beat that writes both, and Spark's reports as they are fetched. What the JVM
does for a report is measured afterwards, when it is asked for a thousand of them. So other work on the machine counts
for nothing.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

from measuring import SETTINGS, cpu_seconds, load, where
from rekindle.history.recorder import Recorder
from rekindle.runtime.heartbeat import Heartbeat
from rekindle.session.session import make_session
from rekindle.spark.query.polling import Polling
from statistics_cost import SETTLE_S, at_work

MAKERS = (
    (Recorder, ("heard", "ordered", "completed", "ended", "flush")),
    (Heartbeat, ("heard", "ordered", "beat")),
    (Polling, ("fetch_report",)),
)
REPORTS = 1_000
IDLE_S = 10


class Meter:
    """Adds up the CPU of threads while they make statistics."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        #: reports that were fetched, and the last call that fetched one
        self.reports = 0
        self.fetch: Callable[[], Any] | None = None
        self._lock = threading.Lock()
        #: a maker that another one calls is measured with that
        self._thread = threading.local()

    def put_in(self) -> None:
        """Stand before everything that makes statistics."""
        for kind, names in MAKERS:
            for name in names:
                setattr(kind, name, self._measured(getattr(kind, name)))

    def _measured(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any) -> Any:
            if getattr(self._thread, "measures", False):
                return real(*args)
            self._thread.measures = True
            began_s = time.thread_time()
            try:
                return real(*args)
            finally:
                took_s = time.thread_time() - began_s
                self._thread.measures = False
                with self._lock:
                    self.cpu_s += took_s
                    if isinstance(args[0], Polling):
                        self.reports += 1
                        self.fetch = lambda: real(*args)

        return measured


def java_cpu_s() -> float:
    """Return what the JVM has used so far."""
    java = next(one for one in psutil.Process().children(recursive=True) if one.name() == "java")
    times = java.cpu_times()
    return float(times.user + times.system)


def of_a_report(fetch: Callable[[], Any]) -> float:
    """Return the seconds of the JVM's CPU for one report, beside what it does anyway."""
    before_s, began_s = java_cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    anyway = (java_cpu_s() - before_s) / (time.monotonic() - began_s)
    before_s, began_s = java_cpu_s(), time.monotonic()
    for _ in range(REPORTS):
        fetch()
    return max(java_cpu_s() - before_s - anyway * (time.monotonic() - began_s), 0.0) / REPORTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subtasks", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before it is measured")
    parser.add_argument("--rows-every", type=float, default=1, help="seconds between two rows; 0: none")
    given = parser.parse_args()
    load_before = load()
    meter = Meter()
    meter.put_in()
    spark = make_session("rekindle-bench", SETTINGS)
    with at_work(spark, given) as (_, handle):
        batches, began_s = sum(task.batches for task in handle.status().tasks), time.monotonic()
        before = meter.cpu_s, meter.reports, cpu_seconds()
        time.sleep(given.seconds)
        span_s = time.monotonic() - began_s
        python_s, reports, all_s = meter.cpu_s - before[0], meter.reports - before[1], cpu_seconds() - before[2]
        batches = sum(task.batches for task in handle.status().tasks) - batches
        assert meter.fetch is not None, "no report was fetched"
        report_s = of_a_report(meter.fetch)
    java_s = report_s * reports
    print(
        f"""
| subtasks: {given.subtasks} | |
| --- | ---: |
| CPU of the driver's threads in statistics, share of one core | {python_s / span_s:.2%} |
| CPU of the JVM for the reports it was asked for | {java_s / span_s:.2%} |
| both, share of one core | **{(python_s + java_s) / span_s:.2%}** |
| both, of what the driver, its JVM and its workers use | {(python_s + java_s) / max(all_s, 1e-9):.2%} |

- {span_s:.0f} s, {batches} batches, {reports} reports, {report_s * 1000:.2f} ms of the JVM for each
{where(spark, load_before)}"""
    )
    spark.stop()


if __name__ == "__main__":
    main()

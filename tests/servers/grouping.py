"""Which files of tests go to one worker, since each worker starts servers of its own, and some take seconds of CPU.

`make check` deals files out to workers. Files that need one of these servers are dealt out together.
"""

from __future__ import annotations

from xdist.scheduler.loadfile import LoadFileScheduling

TOGETHER: dict[str, tuple[str, ...]] = {
    "kafka": (
        "tests/crash/test_connectors.py",
        "tests/jobs/test_available_now_of_kafka.py",
        "tests/jobs/test_backlog_of_kafka.py",
        "tests/sinks/test_examining.py",
        "tests/sinks/test_kafka.py",
        "tests/sinks/test_owners.py",
        "tests/sinks/test_reading_back.py",
        "tests/sinks/test_rivals.py",
        "tests/sources/test_kafka.py",
        "tests/sources/test_kafka_away.py",
    ),
    "s3_server_of_tests": (
        "tests/cli/test_on_s3.py",
        "tests/jobs/test_moving.py",
        "tests/jobs/test_on_s3.py",
        "tests/jobs/test_requests_on_s3.py",
        "tests/session/test_connectors.py",
        "tests/sinks/test_tables_in_a_bucket.py",
        "tests/sources/test_files_in_a_bucket.py",
        "tests/storage/test_s3.py",
        "tests/upkeep/test_moving_stores.py",
    ),
    "hdfs_of_tests": (
        "tests/sources/test_files_in_hdfs.py",
        "tests/storage/test_hdfs.py",
        "tests/storage/test_hdfs_gateway.py",
    ),
    "browser": (
        "tests/ui/test_appearance.py",
        "tests/ui/test_away.py",
        "tests/ui/test_checkpoint_pages.py",
        "tests/ui/test_pages.py",
        "tests/ui/test_same_numbers.py",
    ),
}
"""A fixture that starts a server, a cluster or a browser → the files that need it."""

GROUPS = {file: fixture for fixture, files in TOGETHER.items() for file in files}


class Together(LoadFileScheduling):
    """Deals out files, and those of a group as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return GROUPS.get(file, file)

"""Two ways to use a job from Airflow: run one that ends, and watch one that does not.

Airflow must not be what keeps a stream alive: a worker that is replaced would stop it. A service does that (systemd,
Kubernetes); Airflow looks whether it is well, and may stop or upgrade it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag

STORAGE = "s3://my-bucket/rekindle"  # needs S3A on the worker, or --conf spark.jars.packages=... in the command
SINCE = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dag(schedule="@daily", start_date=SINCE, catchup=False, max_active_runs=1, tags=["rekindle"])
def daily_report() -> None:
    """Run a job whose sources all end. A retry resumes it; each day is a job, and a storage folder, of its own."""
    BashOperator(
        task_id="run",
        bash_command="exec rekindle run /app/daily_report.py --mode batch --json",  # exec: SIGTERM reaches the driver
        env={"REKINDLE_STORAGE": STORAGE + "/daily_report/{{ ds }}", "DAY": "{{ ds }}"},
        append_env=True,
        retries=5,
        retry_delay=timedelta(minutes=1),
    )


@dag(schedule="*/5 * * * *", start_date=SINCE, catchup=False, max_active_runs=1, tags=["rekindle"])
def hourly_bids_is_well() -> None:
    """Fail, and so alert, where the stream has FAILED, is LOST or silent."""
    BashOperator(
        task_id="check",
        bash_command="rekindle status hourly_bids --check",
        env={"REKINDLE_STORAGE": STORAGE},
        append_env=True,
    )


daily_report()
hourly_bids_is_well()

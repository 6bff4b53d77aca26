#!/usr/bin/env bash
# Smoke tests on other versions of PySpark and Python than the rest of the tests run on, each pair in a virtual
# environment of its own in .venv/matrix. A Python that is not on this machine is named, and its pairs are left out.
#
# PAIRS="3.5.7/3.10 4.3.0/3.13" chooses some (PySpark/Python), ARGS is passed on to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/jars.sh

# Each version of PySpark, and each Python beside the newest PySpark that it has.
readonly PAIRS=${PAIRS:-3.5.7/3.10 3.5.7/3.11 4.0.0/3.11 4.1.1/3.12 4.2.0/3.10 4.2.0/3.13 4.3.0/3.12 4.3.0/3.13}

# What a user would notice first: whole lives of a job, its inputs, pipelines, batch runs, older queries.
readonly SMOKE=(
    tests/jobs/test_life_of_a_job.py
    tests/jobs/test_inputs_together.py
    tests/jobs/test_inputs_values.py
    tests/jobs/test_other_tasks.py
    tests/jobs/test_parallel.py
    tests/jobs/test_stopping.py
    tests/jobs/test_batch_mode.py
    tests/jobs/test_backlog.py
    tests/spark/test_preludes.py
    tests/jobs/test_adopting.py
    tests/jobs/test_restore_checks.py
    tests/jobs/test_changed_jobs.py
    tests/jobs/test_checked_queries.py
    tests/jobs/test_shadow.py
    tests/jobs/test_refused_plans.py
    tests/jobs/test_joins.py
    tests/jobs/test_collations.py
    tests/jobs/test_spark_dies.py
    tests/spark/test_plain_flush.py
    tests/spark/test_progress_dir_on_spark.py
    tests/examples
    tests/sinks/test_delta.py
    tests/sinks/test_iceberg.py
    tests/sinks/test_tables_read_by_spark.py
    tests/sources/test_kafka.py
    tests/sources/test_jdbc.py
    tests/sources/test_streams_of_tables.py
)

find_python() {
    local candidate
    for candidate in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# The Scala that PySpark from PyPI is built with.
scala_of() { case $1 in 3.*) echo 2.12 ;; *) echo 2.13 ;; esac }

# An environment in $1 with PySpark $2 on the interpreter $3.
make_environment() {
    "$3" -m venv --clear "$1" || return 1
    # PySpark 3.5 and 4.0 know no newer pyarrow.
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --editable \
        '.[spark,delta,iceberg,postgres,kafka,s3,dev]' "pyspark==$2" 'pyarrow<20' || return 1
    # What cannot be fetched is skipped by its tests.
    fetch_jars "$1/spark-kafka" "-Dspark.version=$2" "-Dscala.version=$(scala_of "$2")" || true
    fetch_tables "$1/spark-tables" "$2" || true
    ln -sfn "$PWD/.venv/kafka-broker" "$1/kafka-broker"
    ln -sfn "$PWD/.venv/spark-postgres" "$1/spark-postgres"
    ln -sfn "$PWD/.venv/spark-jdbc" "$1/spark-jdbc"
    touch "$1/made"
}

smoke() {
    local python=$1/bin/python
    "$python" -c 'import platform, pyspark as p; print("matrix: PySpark", p.__version__, "on", platform.python_version())'
    # shellcheck disable=SC2086 # several arguments
    env PATH="$1/bin:$PATH" PYSPARK_PYTHON="$python" PYSPARK_DRIVER_PYTHON="$python" REKINDLE_TEST_JARS="$1" \
        "$python" -m pytest -q -m "not slow and not crash" ${ARGS:-} "${SMOKE[@]}"
}

passed=() failed=() absent=()
for pair in $PAIRS; do
    home=$PWD/.venv/matrix/${pair/\//-}
    if [ ! -f "$home/made" ]; then
        if ! interpreter=$(find_python "${pair#*/}"); then
            absent+=("$pair")
            continue
        fi
        printf 'matrix: making an environment with PySpark %s on Python %s\n' "${pair%/*}" "${pair#*/}"
        if ! make_environment "$home" "${pair%/*}" "$interpreter"; then
            failed+=("$pair")
            continue
        fi
    fi
    if smoke "$home"; then passed+=("$pair"); else failed+=("$pair"); fi
done

printf 'matrix: passed on %s\n' "${passed[*]:-none}"
if [ ${#absent[@]} -gt 0 ]; then printf 'matrix: no such Python here for %s\n' "${absent[*]}"; fi
if [ ${#failed[@]} -gt 0 ]; then
    printf 'matrix: failed on %s\n' "${failed[*]}" >&2
    exit 1
fi

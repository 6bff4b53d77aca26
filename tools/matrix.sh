#!/usr/bin/env bash
# Smoke tests on each version of PySpark that is supported, each in a virtual environment of its own in .venv/matrix.
#
# VERSIONS="4.0 4.3" chooses some, ARGS is passed on to pytest. PYTHON=... as for tools/setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SMOKE=(
    tests/jobs/test_life_of_a_job.py
    tests/jobs/test_stopping.py
    tests/jobs/test_inputs_together.py
    tests/spark/test_plain_flush.py
    tests/jobs/test_adopting.py
)

failed=()
for version in ${VERSIONS:-4.0 4.1 4.2 4.3}; do
    home=$PWD/.venv/matrix/$version
    if [ ! -f "$home/made" ]; then
        printf 'matrix: making an environment with PySpark %s\n' "$version"
        "${PYTHON:-$PYSPARK_PYTHON}" -m venv --clear "$home"
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[spark,dev]' \
            "pyspark==$version.*" 'pyarrow<20'
        touch "$home/made"
    fi
    export PYSPARK_PYTHON=$home/bin/python PYSPARK_DRIVER_PYTHON=$home/bin/python
    printf 'matrix: %s, ' "$("$PYSPARK_PYTHON" --version)"
    "$PYSPARK_PYTHON" -c 'import pyspark; print("PySpark", pyspark.__version__)'
    # shellcheck disable=SC2086 # several arguments
    "$PYSPARK_PYTHON" -m pytest -q -m "not slow and not crash" ${ARGS:-} "${SMOKE[@]}" || failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then
    printf 'matrix: failed on PySpark %s\n' "${failed[@]}" >&2
    exit 1
fi

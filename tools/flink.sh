#!/usr/bin/env bash
# Makes .venv/flink, an environment with Flink and its Python, for `make bench-nexmark`; some 300 MB. Nothing of the
# project runs in it, and `make setup` does without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/jars.sh
source .venv/env.sh

readonly VERSION=2.3.0
readonly FLINK=$PWD/.venv/flink

say() { printf 'flink: %s\n' "$*"; }

if [ "$FLINK/complete" -nt tools/flink.sh ]; then exit 0; fi
rm -rf "$FLINK"
say "installing Flink $VERSION into .venv/flink"
python -m venv "$FLINK"
pip=("$FLINK/bin/python" -m pip install --quiet --disable-pip-version-check)
# What the way to its Java needs of what its Python asks for. The rest, Beam first of all, is for functions in Python.
"${pip[@]}" py4j==0.10.9.7 ruamel.yaml
"${pip[@]}" --no-deps "apache-flink==$VERSION" "apache-flink-libraries==$VERSION"
# Its Parquet, which needs Hadoop's classes: those that PySpark brings.
fetch_jars "$FLINK/flink-parquet" "-Dflink.version=$VERSION"
touch "$FLINK/complete"
say "done"

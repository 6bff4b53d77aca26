#!/usr/bin/env bash
# Makes .venv with everything the project needs, finds a Java for Spark, and writes .venv/env.sh, which the Makefile
# sources before it starts anything. Called again, it sees that all is in place and returns at once.
#
#     tools/setup.sh            all: connectors, development tools, servers for the tests
#     tools/setup.sh product    what a user needs to run a job on Spark, and nothing else
#
# PYTHON=... chooses the interpreter. Packages of the system (Debian's) are installed only by root or where sudo asks
# for no password; otherwise what is missing is named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/jars.sh

readonly VENV=$PWD/.venv
readonly WANTED=${1:-all}
# Stamps, written last: a stamp that is newer than what it was made from says that all is in place.
readonly ENV_FILE=$VENV/env.sh        # the product
readonly ALL=$VENV/development-tools  # the rest

say() { printf 'setup: %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# --- packages of the system -------------------------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Whether we may install Debian packages without asking anybody.
may_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

apt_install() {
    say "installing $* with apt-get"
    as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# --- Python -----------------------------------------------------------------------------------------------------------

usable_python() {
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.10}; do
        if usable_python "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    local python
    if ! python=$(find_python); then
        may_install && apt_install python3 python3-venv || true
        python=$(find_python) || die "no Python 3.10 to 3.13 found${PYTHON:+ at $PYTHON}." \
            "Install one (Debian: apt-get install python3 python3-venv), or say PYTHON=/path/to/python make setup."
    fi
    # Debian keeps what makes virtual environments in a package of its own.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        may_install && apt_install python3-venv || true
        "$python" -c 'import ensurepip, venv' 2>/dev/null || die "$python cannot make virtual environments." \
            "Install what it lacks (Debian: apt-get install python3-venv), then run make setup again."
    fi
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear "$VENV"
}

# --- Java -------------------------------------------------------------------------------------------------------------

# The feature release of the Java at $1, e.g. 17; nothing where there is none that runs.
java_release() {
    [ -x "$1/bin/java" ] || return 0
    "$1/bin/java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

java_homes() {
    local java
    if [ -n "${JAVA_HOME:-}" ]; then printf '%s\n' "$JAVA_HOME"; fi
    if java=$(command -v java); then dirname "$(dirname "$(readlink -f "$java")")"; fi
    for java in /usr/lib/jvm/*/bin/java /opt/java/*/bin/java "$HOME"/.sdkman/candidates/java/*/bin/java \
        /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java; do
        if [ -x "$java" ]; then dirname "$(dirname "$java")"; fi
    done
}

# Spark is made for Java 17 and 21: one of these comes before any newer one, wherever it was found.
find_java() {
    local home release newer=
    while IFS= read -r home; do
        release=$(java_release "$home")
        case $release in
        17 | 21)
            printf '%s\n' "$home"
            return
            ;;
        esac
        if [ -z "$newer" ] && [ "${release:-0}" -gt 17 ]; then newer=$home; fi
    done < <(java_homes)
    [ -n "$newer" ] && printf '%s\n' "$newer"
}

require_java() {
    if home=$(find_java); then return; fi
    if may_install; then apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless || true; fi
    home=$(find_java) || die "Spark needs Java 17 or 21, and none was found in JAVA_HOME, PATH or /usr/lib/jvm." \
        "Install one (Debian 12: apt-get install openjdk-17-jre-headless; newer: openjdk-21-jre-headless; macOS:" \
        "brew install openjdk@17), or set JAVA_HOME, then run make setup again."
}

# --- servers for the tests of connectors ------------------------------------------------------------------------------

# The tests start servers of their own (tests/servers); here their programs are found, or installed where we may.
# Without them everything works but those tests, which are skipped and say why. So what builds one, or asks a registry
# that may not answer, has LATEST seconds from the start of the set-up, and no more.
readonly LATEST=900

in_time() { timeout "$((SECONDS < LATEST ? LATEST - SECONDS : 1))" "$@"; }

find_postgres() {
    local home
    for home in "$(dirname "$(command -v pg_ctl || echo /nowhere/x)")" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
        /opt/homebrew/opt/postgresql@*/bin; do
        if [ -x "$home/initdb" ] && [ -x "$home/pg_ctl" ]; then return; fi
    done
    return 1
}

# Debian's package would make a cluster and start it: not on somebody's machine for the sake of tests.
install_postgres() {
    local quiet=/etc/postgresql-common/createcluster.d/rekindle-setup.conf status=0
    as_root mkdir -p "${quiet%/*}"
    printf 'create_main_cluster = false\n' | as_root tee "$quiet" >/dev/null
    apt_install postgresql || status=$?
    as_root rm -f "$quiet"
    return "$status"
}

want_postgres() {
    if find_postgres; then return; fi
    if may_install; then install_postgres || true; fi
    find_postgres || say "no PostgreSQL server: its tests will be skipped (Debian: apt-get install postgresql)"
}

# The pages of `rekindle ui` are tested in a real browser.
want_browser() {
    if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then return; fi
    if may_install; then apt_install chromium || true; fi
    command -v chromium >/dev/null || say "no Chromium: the tests of pages will be skipped (Debian: apt-get install chromium)"
}

# Debian's package of Prometheus would start a server: one program of it is wanted.
want_promtool() {
    if command -v promtool >/dev/null || [ -x "$VENV/prometheus/promtool" ]; then return; fi
    local folder
    folder=$(mktemp -d)
    if may_install; then as_root apt-get update -qq || true; fi
    (cd "$folder" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . &&
        mkdir -p "$VENV/prometheus" && mv usr/bin/promtool "$VENV/prometheus/") >"$VENV/prometheus.log" 2>&1 ||
        say "no promtool: the test of the alert rules will be skipped (Debian: apt-get install prometheus)"
    rm -rf "$folder"
}

want_npm() {
    if ! command -v npm >/dev/null && may_install; then apt_install nodejs npm || true; fi
}

have_maven() {
    if ! command -v mvn >/dev/null && may_install; then apt_install maven || true; fi
    command -v mvn >/dev/null ||
        say "no Maven: the tests of Kafka, S3 and of Spark in clouds will be skipped (Debian: apt-get install maven)"
    command -v mvn >/dev/null
}

# Of what Python's side of Kerberos is built.
want_kerberos_headers() {
    if ! command -v krb5-config >/dev/null && may_install; then
        apt_install gcc libc6-dev libkrb5-dev python3-dev || true
    fi
}

# Built from its sources, without optimising, which takes a third of the time.
want_kerberos() {
    ! "$VENV/bin/python" -c 'import gssapi' 2>/dev/null || return 0
    say "building Python's side of Kerberos"
    CFLAGS=-O0 in_time "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        "gssapi>=1.8" >"$VENV/kerberos.log" 2>&1 ||
        say "no gssapi could be built: the tests of Kerberos will be skipped (Debian: apt-get install gcc libkrb5-dev python3-dev)"
}

# What Maven fetches without knowing which Spark there is.
want_servers() {
    say "fetching servers of Kafka, S3 and HDFS, Google's connector for Spark and the files of Flink's dashboard with Maven"
    fetch_jars "$VENV/kafka-broker" || say "no Kafka broker could be fetched: its tests will be skipped"
    fetch_jars "$VENV/s3-server" || say "no S3 server could be fetched: its tests will be skipped"
    fetch_jars "$VENV/hdfs-server" || say "no HDFS could be fetched: its tests will be skipped"
    fetch_jars "$VENV/spark-gcs" ||
        say "no connector to Google could be fetched: the tests of Spark on Google will be skipped"
    fetch_jars "$VENV/spark-jdbc" || say "no JDBC drivers of MariaDB, MySQL and H2 could be fetched: their tests will be skipped"
    fetch_jars "$VENV/spark-postgres" ||
        say "no JDBC driver of PostgreSQL could be fetched: the tests of rk.sources.Jdbc will be skipped"
    fetch_jars "$VENV/iceberg-rest" || say "no REST catalog of Iceberg could be fetched: its tests will be skipped"
    fetch_jars "$VENV/flink-web" || say "Flink's dashboard could not be fetched: its test will be skipped"
}

hadoop_version() {
    find "$VENV"/lib/python*/site-packages/pyspark/jars -name 'hadoop-client-api-*.jar' |
        sed 's/.*hadoop-client-api-\(.*\)\.jar/\1/'
}

# Spark's connectors are those of its own version, and of its Hadoop's.
want_connectors() {
    local spark hadoop
    say "fetching Spark's connectors to Kafka, S3 and Azure with Maven"
    spark=$("$VENV/bin/python" -c 'import pyspark; print(pyspark.__version__)')
    hadoop=$(hadoop_version)
    # Spark 4.2's works on 4.3, for which not every mirror has one of its own.
    fetch_jars "$VENV/spark-kafka" "-Dspark.version=$spark" ||
        fetch_jars "$VENV/spark-kafka" "-Dspark.version=4.2.0" ||
        say "no Kafka connector for Spark $spark could be fetched: the tests of the Kafka source will be skipped"
    fetch_jars "$VENV/spark-s3" "-Dhadoop.version=$hadoop" ||
        say "no S3A for Hadoop $hadoop could be fetched: the tests of Spark on S3 will be skipped"
    fetch_jars "$VENV/spark-azure" "-Dhadoop.version=$hadoop" ||
        say "no connector to Azure could be fetched: the tests of Spark on Azure will be skipped"
}

# The oldest PySpark that the package allows, for a few tests: beside the newest, for Pythons that look there first.
want_oldest_pyspark() {
    local folder=$VENV/oldest-pyspark
    if [ ! -d "$folder/pyspark" ]; then
        say "fetching PySpark 3.5"
        rm -rf "$folder" "$folder.new"
        if ! in_time "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
            --target "$folder.new" pyspark==3.5.7 py4j==0.10.9.7 >"$folder.log" 2>&1; then
            say "no PySpark 3.5 could be fetched: its tests will be skipped"
            return
        fi
        mv "$folder.new" "$folder"
    fi
    if [ ! -d "$folder/spark-tables" ] && command -v mvn >/dev/null; then
        fetch_tables "$folder/spark-tables" 3.5.7 || say "no Delta for PySpark 3.5 could be fetched: its test will be skipped"
    fi
}

# Azurite, which is Microsoft's own emulator of Azure's blobs.
want_azure() {
    [ ! -d "$VENV/azurite/node_modules/azurite" ] || return 0
    say "fetching an Azure server with npm"
    mkdir -p "$VENV/azurite"
    in_time npm install --silent --no-fund --no-audit --omit=dev --prefix "$VENV/azurite" azurite@3.35.0 >"$VENV/azurite.log" 2>&1 ||
        say "no Azure server could be fetched: its tests will be skipped (Debian: apt-get install nodejs npm)"
}

# What draws the diagrams of the documentation site.
want_mermaid() {
    in_time "$VENV/bin/python" -m tools.mermaid >"$VENV/mermaid.log" 2>&1 ||
        say "no Mermaid could be fetched: the site shows the text of its diagrams (Debian: apt-get install nodejs npm)"
}

# Built from their sources, which takes some minutes: only where there is a Go already.
want_built() {
    local folder=$1 module=$2 of=$3
    [ ! -x "$VENV/$folder/$(basename "${module%@*}")" ] || return 0
    if ! command -v go >/dev/null; then
        say "no Go: the tests of $of will be skipped"
        return
    fi
    say "building a server of $of with Go"
    GOBIN=$VENV/$folder in_time go install "$module" >"$VENV/$folder.log" 2>&1 ||
        say "no server of $of could be built: its tests will be skipped"
}

want_go_servers() {
    want_built gcs-server github.com/fsouza/fake-gcs-server@v1.56.1 "Google's buckets"
    want_built versity github.com/versity/versitygw/cmd/versitygw@v1.8.0 "S3, the second one,"
}

# --- all of it --------------------------------------------------------------------------------------------------------

# Scripts of a virtual environment name the folder it was made in: one that was moved or copied has to be made anew.
usable_venv() {
    usable_python "$VENV/bin/python" && grep -qsF "$VENV" "$VENV/bin/pip"
}

is_new() { [ "$1" -nt pyproject.toml ] && [ "$1" -nt tools/setup.sh ]; }

# What is imported is compiled when it is: to compile all of it takes half a minute.
install() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --editable "$1"; }

# What needs none of Python's packages. One of the system's packages is installed at a time.
fetch_beside() {
    want_go_servers &
    want_postgres
    want_kerberos_headers
    want_browser
    want_npm
    want_azure &
    want_mermaid &
    if have_maven; then want_servers & fi
    want_promtool
    wait
}

in_place() {
    is_new "$ENV_FILE" && usable_venv || return 1
    [ "$WANTED" = product ] || is_new "$ALL" || return 1
    # shellcheck source=/dev/null
    (. "$ENV_FILE" && [ -x "$JAVA_HOME/bin/java" ] && [ "$PYSPARK_PYTHON" = "$VENV/bin/python" ])
}

# Whatever is made, removed or emptied through a link is another checkout's.
if [ -L "$VENV" ]; then
    die ".venv is a link to $(readlink "$VENV"), the environment of another checkout, which set-up would change." \
        "Remove the link (rm .venv), then run make setup again; or use that environment as it is: source .venv/env.sh"
fi

if in_place; then exit 0; fi
rm -f "$ENV_FILE"

require_java
say "Java $(java_release "$home") at $home"

usable_venv || make_venv
if [ "$WANTED" = product ]; then
    say "installing the project into .venv"
    install '.[spark]'
else
    export JAVA_HOME=$home
    fetch_beside & beside=$!
    say "installing the project and its tools into .venv"
    install '.[spark,delta,iceberg,postgres,kafka,s3,azure,gcs,hdfs,ui,openlineage,dev]'
    wait "$beside" || true
    want_kerberos &
    # Two Mavens would write to one repository.
    if command -v mvn >/dev/null; then want_connectors; fi
    want_oldest_pyspark
    wait
fi

{
    printf '# Written by tools/setup.sh.\n'
    printf 'export JAVA_HOME=%q\n' "$home"
    printf 'export PYSPARK_PYTHON=%q\n' "$VENV/bin/python"
    printf 'export PYSPARK_DRIVER_PYTHON=%q\n' "$VENV/bin/python"
    # shellcheck disable=SC2016 # PATH is to be looked up when the file is read
    printf 'export PATH=%q:"$PATH"\n' "$VENV/bin"
} >"$ENV_FILE.new"
mv "$ENV_FILE.new" "$ENV_FILE"
[ "$WANTED" = product ] || touch "$ALL"
say "done"

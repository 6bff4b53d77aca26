# For tools/setup.sh and tools/matrix.sh, from the project's folder.

# Jars from Maven into the folder $1, anew each time: those that the list of the same name in tools/maven tells. What
# follows are options for Maven. Says why where it fails, and leaves no folder.
fetch_jars() {
    local folder=$1
    shift
    rm -rf "$folder" "$folder.new"
    if mvn --quiet --batch-mode dependency:copy-dependencies -DincludeScope=runtime \
        -f "tools/maven/${folder##*/}.xml" "-DoutputDirectory=$folder.new" "$@" >"$folder.log" 2>&1; then
        mv "$folder.new" "$folder"
    else
        grep -m 1 ERROR "$folder.log" || tail -n 1 "$folder.log"
        return 1
    fi
}

# Delta and Iceberg for Spark $2 into the folder $1; fails where they have none for it.
fetch_tables() {
    local delta iceberg
    case $2 in
    3.5.*) delta=delta-spark_2.12:3.3.3 iceberg=iceberg-spark-runtime-3.5_2.12:1.10.2 ;;
    4.0.*) delta=delta-spark_2.13:4.0.1 iceberg=iceberg-spark-runtime-4.0_2.13:1.10.2 ;;
    4.1.*) delta=delta-spark_4.1_2.13:4.4.0 iceberg=iceberg-spark-runtime-4.1_2.13:1.12.0 ;;
    *) return 1 ;;
    esac
    fetch_jars "$1" "-Ddelta=${delta%:*}" "-Ddelta.version=${delta#*:}" \
        "-Diceberg=${iceberg%:*}" "-Diceberg.version=${iceberg#*:}"
}

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

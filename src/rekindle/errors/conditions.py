"""The table of errors: of each code, what has happened, and what to do next. `docs/errors.md` is generated from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table of errors."""

    kind: str
    message: str
    next_step: str


def _conditions(kind: str, **rows: tuple[str, str]) -> dict[str, Condition]:
    return {code: Condition(kind, message, next_step) for code, (message, next_step) in rows.items()}


CONDITIONS: dict[str, Condition] = {
    **_conditions(
        "definition",
        UID_INVALID=(
            "{uid!r} is not a valid uid.",
            "Use letters, digits, '_', '-' and '.', starting with a letter or digit, at most 100 characters.",
        ),
        UID_DUPLICATE=(
            "The uid {uid!r} is given to {items} of this job.",
            "Give each its own. Sources and tasks share one set of uids, sinks another; a task's is uid= or its name.",
        ),
        INPUT_UNKNOWN=(
            "Task {task!r} reads {input!r}, which is not a source or task of this job.",
            "Pass what job.source(...) returned, or a function decorated with @job.task of the same job.",
        ),
        INPUT_MISSING=("Task {task!r} has no inputs.", "Name its inputs: @job.task(source, ...)."),
        UID_MISSING=(
            "A task is made from {function}, which has no name that could be its uid.",
            "Give it one: job.task(..., uid='name')(...).",
        ),
        JOB_STARTED=(
            "The job {job!r} is running, so {uid!r} cannot be defined again.",
            "Stop it first: handle.stop(). The next start takes the new definition.",
        ),
        COLUMNS_DUPLICATE=(
            "Task {task!r} returns two columns whose names are the same to Spark: {one!r} and {other!r}.",
            "Rename one of them, or leave it out: F.col(...).alias(...), drop(...).",
        ),
        INPUT_IGNORED=(
            "Task {task!r} does not use its input {input!r}, so that Spark would never read it to its end.",
            "Use that parameter of the function, or take the input out of @job.task(...).",
        ),
        WAS_TAKEN=(
            "Task {task!r} has was={was!r}, but {reason}.",
            "Leave was= out where nothing was renamed; a task that takes over the uid of another is a new task.",
        ),
        TASK_MISSING=("The job {job!r} has no task.", "Decorate a function with @job.task(source, ...)."),
        SINK_MISSING=(
            "The output of task {task!r} goes nowhere.",
            "Add job.sink(uid, {task}, sink), or let another task read it.",
        ),
        CHANNEL_OUTPUT_MODE=(
            "Task {task!r} reads the {output_mode!r} output of task {input!r}; tasks can read 'append' only.",
            "Give {input!r} output_mode='append', or do both steps in one task.",
        ),
        TASKS_CYCLIC=(
            "Tasks read each other in a circle: {cycle}.",
            "Break the circle: let one of them read a source, or the output of a task outside of it.",
        ),
        EDGE_UNKNOWN=(
            "An edge leads from {source!r} to {target!r}, and there is no task {missing!r}.",
            "Join tasks of one job by their uids.",
        ),
        PARALLELISM_INVALID=(
            "Task {task!r} asks for parallelism {parallelism}.",
            "Use a whole number, 1 or more.",
        ),
        PARALLELISM_UNSUPPORTED=(
            "Task {task!r} asks for parallelism {parallelism}, but {reason}.",
            "Leave parallelism at 1: Spark parallelises inside the query.",
        ),
        SPEC_UNKNOWN=(
            "Source {source!r} is of type {found}, which is not a source.",
            (
                "Pass rk.Files, rk.Batch, rk.Stream or your rk.SplitSource. Any streaming DataFrame is "
                "rk.Stream(lambda spark: spark.readStream...)."
            ),
        ),
        SOURCE_FUNCTION_INVALID=(
            "{kind} was given an object of type {found}, and takes a function that makes the DataFrame.",
            "Write {kind}(lambda spark: ...), with what makes the DataFrame in place of the dots.",
        ),
        LATE_UNKNOWN=("Source {source!r} has late={late!r}, which is not known.", "Use late='fail' or late='drop'."),
        SINK_UNKNOWN=(
            "Sink {sink!r} is of type {found}, which is not a sink.",
            "Pass one of rk.sinks, or your own TwoPhaseSink. A function for each batch is rk.sinks.Foreach(function).",
        ),
        SINK_LIBRARY_MISSING=(
            "Sink {sink!r} needs the library {library}, which is not installed.",
            "pip install 'rekindle[{extra}]'",
        ),
        SINK_MODE_UNKNOWN=("A {kind} sink has no mode {mode!r}.", "It has: {supported}."),
        ARGUMENT_INVALID=("{what} has {argument}={value!r}. {reason}", "{hint}"),
        S3A_MISSING=(
            "This session has no S3A, through which Spark reaches {place}.",
            "rekindle run ... --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}",
        ),
        HADOOP_CONNECTOR_MISSING=(
            "This session has no Hadoop connector for {scheme}://, through which Spark reaches {place}.",
            "rekindle run ... --conf spark.jars.packages={package} (more: rekindle docs object-storage)",
        ),
        JDBC_DRIVER_MISSING=(
            "Spark has no JDBC driver for {kind}.",
            (
                "Give Spark the driver's jar, e.g. --conf spark.jars.packages=org.postgresql:postgresql:42.7.8. If "
                "Spark does not find its class, name it: options={{'driver': ...}}."
            ),
        ),
        CONNECTOR_MISSING=(
            "This session has no data source {format!r}: Spark has none of that name without a package.",
            "Check the name. If it is right: rekindle run ... --conf spark.jars.packages={package}",
        ),
        MODE_UNKNOWN=("There is no mode {mode!r}.", "Use mode='streaming' or mode='batch'."),
        BATCH_UNBOUNDED=(
            "Source {source!r} has no end, so the job cannot run in batch mode.",
            "Run it in streaming mode, or give the source an end: rk.Files, rk.Batch, rk.sources.Kafka(..., end=...).",
        ),
        BATCH_OF_SPLITS=(
            "Source {source!r} is read split by split, and a batch run reads all of a source at once.",
            "Run it in streaming mode: where its source is bounded the job ends by itself, with the same rows.",
        ),
        BATCH_UNSUPPORTED=(
            "Task {task!r} cannot run in batch mode: {reason}",
            "Run the job in streaming mode, where it ends by itself too; nothing was run.",
        ),
        BACKLOG_UNSUPPORTED=(
            "Task {task!r} cannot compute its history as a batch, as backlog.mode=batch asks for: {reason}.",
            "Set backlog.mode to auto, where such a task streams its history, with the same rows.",
        ),
        BACKLOG_BEGUN=(
            "Task {task!r} has begun to compute its history as a batch, and cannot finish it: {reason}.",
            "Start the job with the query that it began with, or under another name: nothing is recorded yet.",
        ),
        OUTPUT_MODE_UNKNOWN=(
            "Task {task!r} has output_mode {output_mode!r}, which Spark does not have.",
            "Use 'append', 'update' or 'complete'.",
        ),
        OUTPUT_MODE_UNSUPPORTED=(
            "Sink {sink!r} ({kind}) cannot take the {output_mode!r} output of task {task!r}.",
            "It takes: {supported}. Change the task's output_mode or use another sink.",
        ),
        EVENT_TIME_REQUIRED=(
            "{source!r} has a watermark but no event_time.",
            "Name the column beside it: event_time='ts', watermark=...",
        ),
        WATERMARK_REQUIRED=(
            "Source {source!r} is unbounded and has an event_time, but no watermark.",
            "Say how late rows may come: job.source(..., event_time='{event_time}', watermark='10 seconds').",
        ),
        WATERMARK_NEEDLESS=(
            "Source {source!r} is bounded: it loses no row to lateness, so a watermark has no meaning on it.",
            "Leave watermark= out (with Files(ordered=True) it says how far files may overlap).",
        ),
        IDLE_AFTER_NEEDLESS=(
            "Source {source!r} has idle_after, but {reason}.",
            "Leave idle_after= out: it is for an unbounded source with an event_time.",
        ),
        WATERMARK_IN_TASK=(
            "Task {task!r} calls withWatermark on column {column!r}, whose input already has a watermark.",
            (
                "Remove the call and set it on the source: job.source(..., event_time='{column}', watermark=...). If a "
                "step such as mapInPandas loses it, do that step in rk.Stream or transform=, or in a task before this "
                "one: @job.task(..., event_time='{column}')."
            ),
        ),
        WATERMARK_IN_SOURCE=(
            "The function of source {source!r} calls withWatermark, and the source has an event_time.",
            "Remove the call and set it on the source: job.source(..., event_time=..., watermark=...).",
        ),
        EVENT_TIME_MISSING=(
            "Source {source!r} has no column {column!r} for its event time; it has: {columns}.",
            "Name an existing column, or make it in transform=.",
        ),
        EVENT_TIME_TYPE=(
            "Column {column!r} of source {source!r} is {type}, not a timestamp.",
            (
                "Make it one in transform=: F.to_timestamp('{column}', 'yyyy/MM/dd HH:mm') parses text, "
                "F.col('{column}').cast('timestamp') takes a timestamp_ntz in the session's time zone."
            ),
        ),
        EVENT_TIME_UNDECLARED=(
            (
                "Task {task!r} is stateful over the bounded source {source!r}, which has no event_time: its last rows "
                "would never leave Spark's state."
            ),
            "Say job.source(..., event_time=...), or use output_mode='update' or 'complete'.",
        ),
        GROUPS_CUT_BY_BATCHES=(
            (
                "Task {task!r} calls a function for each group ({operator}): on a stream, Spark calls it once in each "
                "batch, with the rows of that batch alone."
            ),
            (
                "Use an aggregate, applyInPandasWithState or transformWithState; group closed windows by their window "
                "column; or run the job with mode='batch', where all sources end."
            ),
        ),
        GROUPS_COLLATED=(
            (
                "Task {task!r} groups by {column!r} for a transformWithState, which is {type}: Spark keeps a state for "
                "each spelling, and loses it where the state is written again."
            ),
            "Group by one spelling: F.collate(F.lower('{column}'), 'UTF8_BINARY').",
        ),
        TOTALS_NEVER_END=(
            (
                "Task {task!r} makes totals over all of {column!r} (cube, rollup or grouping sets): no watermark ends "
                "them, so that they would never come out of a stream."
            ),
            (
                "Use grouping sets that all have the column; or output_mode='update' or 'complete'; or mode='batch', "
                "where all sources end."
            ),
        ),
        SESSION_FILTER_MOVED=(
            (
                "Task {task!r} filters its sessions by {condition}: Spark would apply that to single rows before it "
                "makes sessions of them, and rows of sessions would be lost."
            ),
            (
                'Add "OR spark_partition_id() < 0" to the condition: it is never true, and with it Spark leaves the '
                "filter above the sessions."
            ),
        ),
        DEDUPLICATION_UNSUPPORTED=(
            (
                "Task {task!r} uses dropDuplicatesWithinWatermark over input {source!r}, whose rows are not held by a "
                "delay: its keys would be kept forever."
            ),
            (
                "Use dropDuplicates([..., event time]), or let a task do this step that reads nothing but an unbounded "
                "source with a watermark."
            ),
        ),
        TASK_BATCH_FRAME=(
            "Task {task!r} returned {returned}, not a streaming DataFrame.",
            "Return one DataFrame made from the task's inputs. For several outputs, define a task for each.",
        ),
        QUERY_REFUSED=(
            "Spark refuses the plan of task {task!r}: {reason}",
            (
                "Change the task's function or its output_mode; no batch of this plan was run. If Spark misses a "
                "watermark: job.source(..., event_time=..., watermark=...) sets it, and columns that mapInPandas or an "
                "expression makes have none: make the event time in rk.Stream, transform= or a task before this one."
            ),
        ),
        BATCH_PARTLY_READ=(
            "A sink of task {task!r} has not read all rows of its batch, so Spark cannot keep the state of the rest.",
            (
                "Let the function of rk.sinks.Foreach, or prepare() of your sink, evaluate its whole DataFrame: write "
                "it, or begin with df.persist() and df.count(). show(), limit(), first() and isEmpty() read a part. "
                "Then run again: nothing was lost."
            ),
        ),
        ROWS_BEFORE_WATERMARK=(
            "The processor of task {task!r} emits a row that is before the watermark, which Spark refuses: {reason}",
            (
                "Let it emit no time before the watermark. If timers set other timers, a flush fires these when all "
                "time has passed: leave out eventTimeColumnName, and let another task read the rows (event_time=)."
            ),
        ),
        TASK_FUNCTION_FAILED=("Building task {task!r} failed: {reason}", "Fix the task's function; nothing was run."),
        SOURCE_FUNCTION_FAILED=("Building source {source!r} failed: {reason}", "Fix the source; nothing was run."),
        SOURCE_NOT_STREAMING=(
            "The function of source {source!r} returned a batch DataFrame.",
            "Use rk.Batch for batch DataFrames, or spark.readStream in rk.Stream.",
        ),
        SOURCE_NOT_BATCH=(
            "The function of source {source!r} returned a streaming DataFrame.",
            "Use rk.Stream for streaming DataFrames, or spark.read in rk.Batch.",
        ),
        STATISTICS_UNUSABLE=(
            "Source {source!r} cannot be read in the order of its event time: {reason}",
            (
                "Leave ordered= out, and it is read in any order. Parquet files have statistics of timestamps if Spark "
                "writes them with spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS."
            ),
        ),
        FORMAT_UNKNOWN=("Files has no format {format!r}.", "Use one of: {supported}."),
        FILES_SCHEME_UNSUPPORTED=(
            "rk.Files does not read {path}: it is neither a path nor an address of a known kind.",
            (
                "It reads s3://BUCKET, gs://BUCKET, az://CONTAINER, abfss://CONTAINER@HOST and hdfs://NODE. Mount any "
                "other, or read it with rk.Batch(lambda spark: spark.read...); az:// needs AZURE_STORAGE_ACCOUNT_NAME."
            ),
        ),
        FILES_OPTION_REFUSED=("The option {option!r} makes no sense on rk.Files: {reason}", "Leave it out."),
        SPARK_CONNECT_UNSUPPORTED=(
            "This session is Spark Connect, which has no JVM beside the driver.",
            "Use a classic session: master(...), and neither remote(), SPARK_REMOTE, spark.remote nor spark.api.mode.",
        ),
        SPARK_SETTING_REFUSED=(
            "{place} {setting}={value}, with which {reason}",
            "Set it to {wanted!r}, or leave it out. A job that first ran with it has to start under a new name.",
        ),
        PYSPARK_MISSING=("PySpark is not installed.", "pip install 'rekindle[spark]', or run with spark-submit."),
        SPARK_NOT_STARTED=(
            "Spark could not be started: {reason}",
            "It needs Java 17 or newer, in JAVA_HOME or PATH; see what it printed above, and the settings given to it.",
        ),
        SPARK_USER_NAMELESS=(
            "Spark could not be started: {reason} The user {user} has no name, and Spark does not start for a number.",
            (
                "Give the user an entry in /etc/passwd (in an image: RUN useradd --uid {user} NAME), or run as another "
                "user. If Spark does not start then, either: see what it printed above."
            ),
        ),
        PYSPARK_TOO_OLD=("PySpark {version} is too old: {reason}", "Use PySpark {wanted} or newer."),
        FLUSH_FUNCTION_INVALID=(
            "{function} does not make a query: {reason}",
            "Pass a function of a session that returns the streaming DataFrame which was written with writeStream.",
        ),
        FLUSH_MODE_REFUSED=(
            "There is nothing to flush in output mode {mode!r}: {reason}",
            "A query in this mode has already written each result. Its last output is its result.",
        ),
        FLUSH_REFUSED=(
            "Spark refuses to run the query in output mode {mode!r}: {reason}",
            "Only a query in append mode holds results back. In other modes all results are written already.",
        ),
        ADOPT_TASK_UNKNOWN=("Job {job!r} has no task {task!r}; it has: {tasks}.", "Name one of these with --task."),
        ADOPT_TASK_UNFIT=(
            "Task {task!r} cannot continue a plain query: {reason}.",
            "Let it read what the query read, each stream as a job.source(uid, rk.Stream(...)), in one subtask.",
        ),
        WORKER_MODULE_MISSING=("The task needs {module} on the workers: {reason}", "pip install {module} there."),
    ),
    **_conditions(
        "config",
        KEY_UNKNOWN=("There is no setting {key!r}.{hint}", "Use one of: {settings}."),
        VALUE_INVALID=("{key}={value!r} is not valid: {reason}", "Write it like {example}."),
        UI_MISSING=("`rekindle {verb}` needs {module}, which is not installed.", "pip install 'rekindle[ui]'"),
        UI_TOKEN_MISSING=(
            "A server at {host}, which other machines reach, needs a token.",
            "Give it one, in a file (--token-file FILE) or as REKINDLE_UI_TOKEN; or leave out --host.",
        ),
        CLASSES_NOT_KEPT=(
            "Spark's classes could not be kept in a file: {reason}",
            "Spark starts without it, as before. See what is needed: rekindle docs deploy#start-sooner",
        ),
        METRICS_MISSING=(
            "--metrics-port needs {module}, which is not installed.",
            "pip install 'rekindle[metrics]'; or leave the option out: rekindle ui has the metrics of all jobs.",
        ),
        METRICS_PORT_TAKEN=(
            "The metrics server cannot listen at {address}, port {port}: {reason}",
            "Name another port (--metrics-port [ADDRESS:]PORT); nothing was started.",
        ),
        UI_PORT_TAKEN=("The server cannot listen at {host}, port {port}: {reason}", "Name another port: --port N"),
        BODY_INVALID=("The body of the request is not valid: {reason}", "See /openapi.json."),
        EXAMPLE_EXISTS=(
            "The folder {folder} has files of this name already: {names}.",
            "Name another folder: rekindle example FOLDER",
        ),
        JOBFILE_MISSING=("There is no job file {path}.", "Check the path."),
        JOBFILE_FAILED=("The job file {path} raised {reason}", "Fix it: python {path} shows the same error."),
        JOBFILE_NEEDS_SPARK=(
            "The job file {path} uses Spark while it is loaded, before there is a session: {reason}",
            (
                "Give the type of a @F.udf as an object, which needs no session: @F.udf(DoubleType()). Define anything "
                "else inside the function of the task that uses it, or of one called from there."
            ),
        ),
        JOBFILE_NO_JOB=("The job file {path} defines no job.", "Make one at the top level: job = rk.Job('name')."),
        FUNCTION_UNKNOWN=(
            "{target} names no function: {reason}.",
            "Write FILE.py:FUNCTION or MODULE:FUNCTION; FILE.py alone means its function 'query'.",
        ),
        JOBFILE_SEVERAL_JOBS=("The job file {path} defines several jobs: {jobs}.", "Keep one job a file."),
        VERB_UNKNOWN=("There is no verb {verb!r}.{hint}", "Use one of: {verbs}."),
        OPTION_UNKNOWN=("{command!r} has no option {option}.{hint}", "See: {command} --help"),
        COMMAND_LINE_INVALID=("{reason}.", "See: {command} --help"),
        CLAIM_OF_NOTHING=(
            "The claim mode is claim, but no savepoint is named.",
            'Name it: --from SAVEPOINT --claim-mode claim (restore=..., claim_mode="claim").',
        ),
        CLAIM_MODE_UNKNOWN=(
            "There is no claim mode {mode!r}.",
            "Use no-claim, or claim. LEGACY, in which a job uses files that it does not own, does not exist here.",
        ),
        REWIND_TO_NOTHING=(
            "No checkpoint is named to which the sinks should go back.",
            "Name it: --from CHECKPOINT --rewind-sinks (restore=..., rewind_sinks=True).",
        ),
        CONFIRMATION_MISSING=(
            "There is no terminal on which to ask whether to delete the {what}.",
            "Answer in advance with --yes. Nothing was deleted.",
        ),
        DOCS_MISSING=(
            "The documentation is not installed here.",
            "Install Rekindle from its wheel, or with pip, rather than as a zip of its modules.",
        ),
        PAGE_UNKNOWN=("There is no page {page!r} in the documentation.{hint}", "See what there is: rekindle docs"),
        SECTION_UNKNOWN=(
            "The page {page} has no section {section!r}.",
            "Read all of it: rekindle docs {page}",
        ),
        WORKING_FOLDER_GONE=(
            "The working directory of this command was deleted, so relative paths lead nowhere.",
            "Change to a directory that exists, and run the command again: cd /",
        ),
        TEMPORARY_FOLDER_MISSING=(
            "No directory for temporary files can be written to: neither TMPDIR, /tmp nor /var/tmp.",
            "Name one: export TMPDIR=... Where the root file system is read-only, mount a volume at /tmp.",
        ),
        OUTPUT_REFUSED=(
            "The output of this command cannot be written: {reason}.",
            "Free some room on the disk that it goes to, or let it go elsewhere, and run the command again.",
        ),
        TASK_SET_TWICE=("{option} was given twice with different values.", "Give it once."),
    ),
    **_conditions(
        "input",
        PATH_MISSING=("Source {source!r}: there is nothing at {path}.", "Check the path, or create it first."),
        PATH_EMPTY=(
            "Source {source!r}: {path} holds no files to read.",
            "Check the path and the options that choose files; plain subfolders need 'recursiveFileLookup': True.",
        ),
        FILE_VANISHED=(
            "Source {source!r}: {path} was listed to be read, and is gone.",
            (
                "Put it back and run again: nothing was left out. If a file of an rk.Stream is gone for good, add "
                ".option('ignoreMissingFiles', 'true') to that stream: the job then runs without its rows."
            ),
        ),
        FILE_CHANGED=(
            "Source {source!r}: {path} is not the file that was there when the job first started: {reason}.",
            (
                "Put the old one back, with its modification time. To read the new one in its place: "
                "--allow-changed-files. Rows of the old one that were read already are not taken back."
            ),
        ),
        SPLIT_READ_FAILED=(
            "Source {source!r}: {what} failed: {reason}",
            "None of its rows were taken, and it is tried again. Fix the source, or check that what it reads exists.",
        ),
        SPLIT_READ_INVALID=(
            "Source {source!r}: {what} returned an unusable value: {reason}",
            "Return (DataFrame or None, JSON, bool), with the columns of its schema. No rows of it were taken.",
        ),
        JDBC_COLUMN_UNUSABLE=(
            "Column {column!r} of {table} cannot show which rows are new: {reason}",
            (
                "Read by a column that has a value in every row, only rises, and keeps its type: an id, or a time of "
                "the last change. A query can make one: query='SELECT ..., coalesce(changed, created) AS at FROM ...'. "
                "For a replica, give lag=. A table that was made again needs a source with a new uid."
            ),
        ),
        JDBC_COLUMNS_CHANGED=(
            "The columns of {table} are not those that it had when the job started: {reason}.",
            (
                "Run the job again: it reads on with the columns as they are now, if its tasks and sinks take them. If "
                "not, change the table back, or cast the column: query='SELECT id, v::text AS v FROM ...'."
            ),
        ),
        KAFKA_OFFSETS_GONE=(
            (
                "Partition {partition} of topic {topic!r} is to be read from offset {offset} on, and has the offsets "
                "{first} to {end}."
            ),
            (
                "Retention has deleted what lies between, or the topic was made again. Nothing was skipped. Give what "
                "is missing as part of a history, in a source with a new uid, and say with start= where it ends. Keep "
                "messages (retention.ms of the topic) for longer than a history is read, or a job is down."
            ),
        ),
        KAFKA_DATA_LOST=(
            "Source {source!r}: Kafka no longer has the messages that are to be read next. {reason}",
            (
                "Retention has deleted them, or the topic was deleted or made again. Nothing was skipped. To read "
                "what is left: options={{'failOnDataLoss': 'false'}} for one run. Keep messages (retention.ms of the "
                "topic) for longer than a job is down."
            ),
        ),
        TABLE_NOT_CONTINUED=(
            "Source {source!r}: the table cannot be read on from where the job stands. {reason}",
            (
                "Rows were changed or deleted, versions that are to be read next are gone, or the table was made "
                "again. Nothing was skipped. The stream's options can leave changes out (skipChangeCommits of Delta, "
                "streaming-skip-overwrite-snapshots and streaming-skip-delete-snapshots of Iceberg). Otherwise read "
                "the table as it is now with a source with a new uid. Keep versions for longer than a job is down."
            ),
        ),
        TABLE_COLUMNS_CHANGED=(
            "Source {source!r}: the columns of the table are not those that it had when the job started. {reason}",
            (
                "Run the job again: it reads on with the columns as they are now, if its tasks and sinks take them. "
                "If a column was renamed, dropped or given another type, the connector does not read on: read the "
                "table as it is now with a source with a new uid."
            ),
        ),
        SOURCE_SERVER_FAILED=(
            "Source {source!r}: {server} failed: {reason}",
            (
                "Check that the server runs, and the address, the topic or table, the user and the security settings. "
                "A job that still runs tries again by itself; one that has ended resumes when it is run."
            ),
        ),
        FILES_READ_TWICE=(
            (
                "Spark takes {path} for a pattern: a file that batch {batch} of task {task!r} has to read. It would "
                "read the other files of the batch twice. Nothing of the batch was read."
            ),
            (
                "Add .option('recursiveFileLookup', 'true') to that stream and run again: Spark then reads each file "
                "once, also those in sub-folders. Or give files names without {{}}[]*?\\ from now on."
            ),
        ),
        FILE_UNREADABLE=(
            "Source {source!r}: {path} cannot be read: {reason}",
            "Fix or replace the file, and run again with --allow-changed-files.",
        ),
        FILE_NAME_UNSUPPORTED=(
            "Source {source!r}: the name of {path} has a ':', and Hadoop reads no file on a disk with such a name.",
            "Rename it, and run again: nothing was lost. Write times in names without ':' from now on.",
        ),
        FILE_DAMAGED=(
            "Source {source!r}: {path} is damaged, or not of the format it is said to be: {reason}",
            "Fix or replace the file, under the same name, and run again with --allow-changed-files: nothing was lost.",
        ),
        SCHEMA_MISMATCH=(
            "Source {source!r}: {path} does not fit the schema: {reason}",
            (
                "Fix or replace the file and run again with --allow-changed-files: nothing was lost. The schema is "
                "fixed when the job first starts."
            ),
        ),
        MALFORMED_ROW=(
            "Source {source!r}: a row is malformed: {reason}",
            (
                "Fix it and run again with --allow-changed-files, or read with mode PERMISSIVE or DROPMALFORMED "
                "(options= of rk.Files, .option() of an rk.Stream): nothing was lost."
            ),
        ),
        EVENT_TIME_BEFORE_EPOCH=(
            (
                "Input {source!r}: column {column!r} has a time before 1970 (or its very first instant), which Spark "
                "drops silently."
            ),
            (
                "Filter such rows in transform=, or accept the loss with job.source(..., late='drop'). If the input is "
                "a task, filter them in its function."
            ),
        ),
        EVENT_TIME_AFTER_9999=(
            (
                "Input {source!r}: column {column!r} has a time after the year 9999. It would take the watermark with "
                "it, beyond all other rows. Were milliseconds read as seconds?"
            ),
            (
                "Correct such rows in transform=, or leave them out with job.source(..., late='drop'). If the input is "
                "a task, correct them in its function."
            ),
        ),
        UNFINISHED_BATCH_UNREADABLE=(
            "The query of {checkpoint} stopped in batch {batch}, and {path}, which that batch reads, is gone.",
            "Put it back, so that the batch can be finished; or run the query itself once more, and let it stop.",
        ),
        ROWS_DROPPED_AS_LATE=(
            "Task {task!r}: Spark dropped {rows} rows of bounded inputs as late in batch {batch}.",
            (
                "Rows lag by more than watermark= says: that of a source with ordered=True, or of a task that this one "
                "reads. Increase it, or leave it and ordered= out, and start the job under another name or in another "
                "storage. If it has neither, please report it: nothing may be lost."
            ),
        ),
    ),
    **_conditions(
        "storage",
        STORAGE_UNAVAILABLE=("The storage {uri} cannot be used: {reason}", "Check --storage and its permissions."),
        STORAGE_MISSING=("There is no storage at {uri}.", "Check --storage. The first run of a job makes it."),
        STORAGE_READ_ONLY=("The storage {uri} cannot be written: {reason}", "Make it writable, or choose another."),
        STORAGE_FULL=(
            "No room is left in {uri}: {reason}",
            "Free some room: nothing was lost. A job that still runs continues by itself; else run it again.",
        ),
        STORAGE_GONE=(
            "The job {job!r} is gone from the storage {uri}: deleted, or unmounted, while run {run} was running.",
            "If a mount is missing, mount it and run again: it resumes. If it was deleted, sinks keep what they have.",
        ),
        STORAGE_PATH_UNSUPPORTED=(
            "The storage {uri} has one of the characters {letters} in its path, which Spark takes for a pattern.",
            "Choose a path without them.",
        ),
        PLACE_NOT_KEPT=(
            "{path} lies in a directory of this YARN application, which YARN deletes when it ends.",
            "Give storage= (or REKINDLE_STORAGE) and each file sink an address, or a path that all machines share.",
        ),
        STORAGE_SCHEME_UNSUPPORTED=(
            "There is no storage at addresses that begin with {scheme!r}.",
            (
                "Use a local or mounted path, or an address that begins with file:///, s3://, abfss://, gs:// or "
                "hdfs://. See: rekindle docs object-storage"
            ),
        ),
        STORAGE_LIBRARY_MISSING=(
            "The storage {uri} needs the library {library}, which is not installed.",
            "pip install 'rekindle[{extra}]'",
        ),
        STORAGE_CREDENTIALS_MISSING=(
            "There are no usable credentials for the storage {uri}: {reason}",
            "See what Rekindle looks for, and in which order: rekindle docs object-storage#which-credentials",
        ),
        KERBEROS_TICKET_NEEDED=(
            "The storage {uri} needs a valid Kerberos ticket: {reason}",
            "Get one with kinit, or name a keytab in KRB5_CLIENT_KTNAME. klist shows the tickets that are there.",
        ),
        STORAGE_OTHER_FOR_SPARK=(
            "Spark does not reach the storage {uri} that Rekindle reaches: {reason}",
            "Give Spark the same endpoint and credentials (spark.hadoop.fs...). See: rekindle docs object-storage",
        ),
        OUTPUT_NOT_SHARED=(
            "Spark's tasks have written {rows} rows ({files} files) to {place}, and the driver finds nothing there.",
            "Put it on storage that the driver and all workers reach under the same path.",
        ),
        OUTPUT_INCOMPLETE=(
            "Spark's tasks have written {rows} rows ({files} files) to {place}; there are {seen_rows} ({seen_files}).",
            "It is tried again. If that does not help, check that driver and workers reach the same storage there.",
        ),
        STORAGE_NO_CREATE=(
            "The storage {uri} has no conditional writes (If-None-Match: *), which keep a job from having two drivers.",
            "Use the cloud itself, or a server that has them. See: rekindle docs object-storage",
        ),
        STORAGE_NO_REPLACE=(
            "The storage {uri} is reached through a gateway (HttpFS), which cannot replace a file in one step.",
            "Let HADOOP_CONF_DIR lead to the name nodes. Through the gateway you can look at jobs and stop them only.",
        ),
        OBJECT_CORRUPT=(
            "{path} is damaged: {reason}",
            "Restore it from a backup, or start from a checkpoint: rekindle run JOBFILE --from ...",
        ),
        OBJECT_MISSING=(
            "{path} is missing, and {needed_by} needs it.",
            "Restore it from a backup, or start from another checkpoint: rekindle run JOBFILE --from ...",
        ),
        JOB_NOT_WHOLE=(
            "The job {job!r} in {storage} is not whole, so it is not copied. Faults: {faults}, the first: {first}",
            "See all of them: rekindle storage check {storage} --job {job}",
        ),
        COPY_NOT_WHOLE=(
            "The copy of job {job!r} in {storage} is not whole: {reason}",
            "It is not a job yet. Run the same command again: it replaces what is wrong.",
        ),
        COPY_ADDRESS_UNKNOWN=(
            "{path} holds the address {address}..., whose purpose is not known, so the job is not copied.",
            "Move it by a savepoint: rekindle savepoint JOB, and in the other storage: rekindle run JOBFILE --from ...",
        ),
        FORMAT_NEWER=(
            "{path} has format {found}; this version of Rekindle reads up to {supported}.",
            "Upgrade Rekindle.",
        ),
        PATH_OUTSIDE=("{path!r} leads out of the storage.", "Use paths below it."),
        PROGRESS_FORMAT_UNKNOWN=(
            "{path} is in a format that this version of Rekindle does not know: {reason}.",
            "Leave Spark's streaming log formats at version 1, or use a Rekindle made for this Spark.",
        ),
        PROGRESS_BATCH_PLANNED=(
            "{folder}: batch {batch} is planned and not committed, so no other batch can be planned.",
            "Run the job again: Spark first finishes what it had planned.",
        ),
        PROGRESS_BATCH_MISSING=(
            "{folder}: batch {batch} is not committed there, or no longer kept.",
            "Choose a later checkpoint: rekindle checkpoints JOB",
        ),
        BATCH_PLAN_REPLACED=(
            "Task {task!r}: an earlier driver has recorded batch {batch} with another plan than Spark now runs.",
            "Nothing to do: the batch is run again as it was recorded.",
        ),
        BATCH_PLAN_OVERWRITTEN=(
            "Task {task!r}: Spark runs batch {batch} by another plan than is stored: an earlier driver wrote over it.",
            "Nothing to do: the batch is planned again.",
        ),
        BATCH_RECORDED_MEANWHILE=(
            "Task {task!r}: an earlier driver has recorded batch {batch} after this one began.",
            "Nothing to do: the task resumes after that batch.",
        ),
        BATCH_REPLAY_MISMATCH=(
            "Task {task!r}: batch {batch} was recorded with other offsets than Spark now replays.",
            "Do not edit the progress directory. Start from a checkpoint: rekindle run --from ...",
        ),
    ),
    **_conditions(
        "restore",
        CHECKPOINT_UNKNOWN=("There is no checkpoint or savepoint at {path}.", "See: {list}"),
        CLAIM_OF_CHECKPOINT=(
            "{path} is a checkpoint, which belongs to its job: it cannot be claimed.",
            "Leave out --claim-mode claim, or start from a savepoint.",
        ),
        SAVEPOINT_EXPECTED=(
            "{path} is a checkpoint, which belongs to its job, and not a savepoint.",
            "Delete it with: rekindle forget JOB NUMBER",
        ),
        STATE_NONE=(
            "{path} holds no state: its tasks keep none, or had finished.",
            "See what it holds: rekindle inspect PATH",
        ),
        STATE_TASK_UNKNOWN=(
            "It is not clear which task's state to read: {reason}; {path} holds state of: {known}.",
            "Name one of these tasks.",
        ),
        STATE_OPERATOR_UNKNOWN=(
            "There is no stateful operator {operator} in {path}; there is: {known}.",
            "Name one of these numbers.",
        ),
        STATE_PART_UNKNOWN=(
            "Operator {operator} ({name}) has no part {part!r}; its state has the parts: {known}.",
            "Name one of these parts.",
        ),
        STATE_PART_NEEDED=(
            "The state of operator {operator} ({name}) has several parts: {known}.",
            "Name one of these parts.",
        ),
        STATE_UNREADABLE=(
            "Spark cannot read the state in {path}: {reason}",
            "If a newer checkpoint has replaced it, read a savepoint instead: rekindle savepoint JOB",
        ),
        STATE_MOVED=(
            "The state in {path} was moved, but it still names its schema at the old place: {file}.",
            "Read it where it was made. Or start a job from it, and read a savepoint of that job.",
        ),
        STATE_REWRITE_UNSUPPORTED=(
            "The state of operator {operator} ({name}) cannot be rewritten: {reason}.",
            "The savepoint is unchanged. See what can be rewritten: rekindle docs state",
        ),
        STATE_REWRITE_REFUSED=(
            "The result of fn cannot be the state of operator {operator} ({name}): {reason}.",
            "Return the columns that fn was given, with their types and one row for each key. Nothing was written.",
        ),
        STATE_REWRITE_FAILED=(
            "Spark could not write the state below {path}: {reason}",
            "The savepoint is unchanged, and no job can start from the unfinished copy. Try again.",
        ),
        SAVEPOINT_NEEDED=(
            "Only the state of a savepoint can be rewritten, and {path} is {found}.",
            "Make a savepoint of a job with rekindle savepoint JOB, and of a query without a job with rekindle adopt.",
        ),
        CHECKPOINT_REPLACED=(
            "Newer checkpoints have replaced the one at {path}: its job deleted it while it was copied.",
            "Start from a savepoint, which nothing replaces (rekindle savepoint JOB), or from a newer checkpoint.",
        ),
        INPUTS_CHANGED=(
            "Task {task!r} cannot continue from {path} with other inputs: {reason}.",
            (
                "Put the inputs back as they were; or put the new inputs into a task of their own; or give the task a "
                "new uid, drop its old state with --allow-non-restored-state, and start from the last checkpoint."
            ),
        ),
        INPUT_NOT_RESTORED=(
            "In {path} task {task!r} reads {inputs}, which it no longer does: rows not read yet would be dropped.",
            "Add it back, or drop its position with --allow-non-restored-state.",
        ),
        SOURCE_REPLACED=(
            "In {path} task {task!r} has a position in source {source!r}, which was {before} and is now {now}.",
            (
                "Give the new source a uid of its own: it is read from its beginning. The position in the old one is "
                "dropped with --allow-non-restored-state."
            ),
        ),
        INPUT_TOO_LATE=(
            (
                "Task {task!r} now reads {source!r}, which ends, and it or a task after it has state and a watermark "
                "in {path}: rows before that watermark would be dropped as late."
            ),
            (
                "Read it in a task of its own, with a sink of its own; or give the task a new uid, drop its old state "
                "with --allow-non-restored-state, and start from the last checkpoint."
            ),
        ),
        FINISHED_TASK_READ=(
            "Task {task!r} now reads {producer!r}, which had finished in {path}: nothing of its output is kept.",
            (
                "Let {task!r} read what {producer!r} reads; or run {producer!r} again: give it a new uid and drop its "
                "old state with --allow-non-restored-state."
            ),
        ),
        SINK_UNSETTLED=(
            "Rows are prepared for sink {sink!r} in {path}, and the sink {difference}: nothing could commit them.",
            (
                "Run the job once with that sink as it was, and stop it (rekindle stop): a stop commits these rows. "
                "Then start the job with the change."
            ),
        ),
        TASKS_CHANGED=(
            "The job has changed since {path}, which has no checkpoint to resume from: {difference}.",
            "Let it run as it was until it has a checkpoint; or begin again: rekindle forget JOB, or another name.",
        ),
        OUTPUT_CHANGED=(
            "Column {column!r} that task {task!r} puts into its channels was {before}, and is now {now}.",
            "Give the column another name, or its old type; or cast it in the tasks that read it.",
        ),
        STATE_NOT_RESTORED=(
            "{path} holds state of {uids}, which this job does not have.",
            (
                "If {new} is {was!r} renamed, say so: @job.task(..., was={was!r}). Else add them back, or drop their "
                "state with --allow-non-restored-state."
            ),
        ),
        STATE_SCHEMA_INCOMPATIBLE=(
            "The state that the query needs differs from the state that is stored: {reason}",
            (
                "Put the task's query back as it was; or give the task a new uid, drop its old state with "
                "--allow-non-restored-state, and start it from the last checkpoint. Nothing was lost."
            ),
        ),
        STATE_OPERATORS_CHANGED=(
            (
                "Other operators keep state in the query of task {task!r}: {before} before, {now} now. Spark would "
                "leave old state out, or take it for that of another operator."
            ),
            (
                "Put the old operators back, in their order; or give the task a new uid, drop its old state with "
                "--allow-non-restored-state, and start from the last checkpoint. Nothing was lost."
            ),
        ),
        STATE_WINDOWS_CHANGED=(
            (
                "Task {task!r} keeps windows of {before} in its state and now has windows of {now}: Spark would count "
                "the rest into new windows and put out the old ones incomplete."
            ),
            (
                "Put the old windows back; or give the task a new uid, drop its old state with "
                "--allow-non-restored-state, and start from the last checkpoint."
            ),
        ),
        STATE_AGGREGATES_CHANGED=(
            (
                "Task {task!r} keeps {before} in its state and now computes {now}: Spark would take the old "
                "values for those of the new functions."
            ),
            (
                "Put the old ones back, in their order; or give the task a new uid, drop its old state with "
                "--allow-non-restored-state, and start from the last checkpoint."
            ),
        ),
        SOURCES_MOVED=(
            (
                "Task {task!r} reads its inputs in another order than before: for Spark, {input!r} was source "
                "{before}, and is now source {now}. Spark keeps positions by these numbers."
            ),
            (
                "Start from the last checkpoint or a savepoint, with --from: then each continues at its position. Or "
                "put the inputs back into their order in the task's query (a union, a join)."
            ),
        ),
        STATE_PARTITIONS_FIXED=(
            "Task {task!r} keeps its state in {found} partitions; a start in place cannot change that to {wanted}.",
            "Start from a checkpoint or savepoint, with --from; or leave state.partitions at {found}.",
        ),
        STATE_PARTITIONS_UNCHANGEABLE=(
            "The state of task {task!r} cannot change from {found} to {wanted} partitions: {reason}",
            "Leave state.partitions at {found}. It can be changed with Spark 4.2 or later and state in RocksDB.",
        ),
        JOB_DRAINED=(
            "{path} belongs to a drained job: windows were emitted before their time.",
            "Use --allow-drained to continue from before the flush; windows already emitted may come again.",
        ),
        SINK_AHEAD=(
            "Sink {sink!r} has committed up to checkpoint {committed}, beyond {path}: its rows would come twice.",
            "Restore a later checkpoint, clean the sink, or accept it with --allow-sink-ahead.",
        ),
        STORAGE_OLDER=(
            (
                "Sink {sink!r} has committed checkpoint {committed} of job {job!r}, and {storage} knows none after "
                "{known}: it is an older copy of the job's storage."
            ),
            (
                "Put the newest copy back. If there is none, start with --allow-sink-ahead: the job continues from "
                "what this copy knows, and rows that sinks have committed since come twice."
            ),
        ),
        SINK_REWIND_UNSUPPORTED=(
            "Sink {sink!r} ({kind}) cannot go back to {path}: {reason}.",
            (
                "Correct its target yourself and add --allow-sink-ahead, which leaves it unchanged; or start from "
                "a later checkpoint."
            ),
        ),
        REWIND_IMPOSSIBLE=(
            "Sinks cannot go back to {path}: {reason}.",
            "Start from a checkpoint of this job that is kept (rekindle checkpoints), or from a later one.",
        ),
        REWIND_UNCONFIRMED=(
            "A start from {path} takes back what sinks have committed since. {what}",
            "If you want that, repeat the command with --yes.",
        ),
        FILE_LIST_DIFFERENT=(
            "The job has another list of the files of source {source!r} than {path}.",
            (
                "Start from it in another storage, which takes the list over; or delete what this one has of the job "
                "first: rekindle forget JOB"
            ),
        ),
        CHECKPOINT_REWOUND=(
            "What {path} had committed was taken back, or some of it: sinks went back to a checkpoint before it.",
            "Start from that checkpoint, or from one that was taken since.",
        ),
        FINISHED_BEHIND_UNFINISHED=(
            "In {path} task {task!r} had finished, and {predecessor!r}, which it reads in this job, {state}.",
            (
                "Let {task!r} read what it read then; or run it from the beginning: give it a new uid and drop its "
                "old state with --allow-non-restored-state."
            ),
        ),
        PARTLY_FINISHED_ALL_TO_ALL=(
            (
                "In {path} some subtasks of task {task!r} had finished, and {predecessor!r}, which feeds each of them "
                "in this job, {state}."
            ),
            (
                "Join the two as they were then; or run {task!r} from the beginning: give it a new uid and drop its "
                "old state with --allow-non-restored-state."
            ),
        ),
        PARTLY_FINISHED_POINTWISE=(
            (
                "In {path} some subtasks of task {task!r} had finished, and {predecessor!r}, which feeds them one by "
                "one in this job, {state}."
            ),
            (
                "Let {task!r} read what it read then; or run it from the beginning: give it a new uid and drop its "
                "old state with --allow-non-restored-state."
            ),
        ),
        FINISHED_STATE_MIXED=(
            "Task {task!r} joins steps that were at different positions in {path}: {operators}.",
            "Keep together what was together then; move what was added, or came from elsewhere, to a task of its own.",
        ),
        MODE_FIXED=(
            "{path} was begun in {found} mode and cannot continue in {mode} mode.",
            "Run it with --mode {found}; or start in {mode} mode under another name or in another storage.",
        ),
        BATCH_FROM_CHECKPOINT=(
            "A batch run cannot start from {path}: it always begins at the beginning.",
            "Leave --from out; or run the job in streaming mode.",
        ),
        JOB_DIFFERENT=(
            "{path} belongs to the job {found!r}, not {job!r}.",
            "Use that job's file; or start another job from it: --allow-other-name.",
        ),
        SPARK_CHECKPOINT_MISSING=(
            "There is no checkpoint of a Spark query at {path}.",
            "Give the query's checkpointLocation: the folder that holds metadata, offsets and commits.",
        ),
        SPARK_CHECKPOINT_EMPTY=(
            "The query of {path} has committed no batch, so its state is empty.",
            "Nothing is lost by starting from the beginning: there is nothing to flush or to adopt.",
        ),
        SPARK_CHECKPOINT_GAP=(
            "{path} cannot be continued: {reason}.",
            (
                "Run the query once more where it ran, stop it, and try again. Asynchronous progress tracking and "
                "continuous processing are not supported."
            ),
        ),
        SPARK_CHECKPOINT_IN_USE=(
            "The query of {path} is running: {reason}.",
            "Stop it first, and try again. Nothing was changed.",
        ),
        SPARK_CHECKPOINT_DIFFERS=(
            "{path} belongs to another query: {reason}",
            "Pass the query that ran with it: the same sources in the same order, the same stateful steps.",
        ),
        SPARK_CHECKPOINT_NEWER=(
            "{path} was written by a newer Spark than {version}: {reason}",
            "Use a PySpark that is at least as new as the one that wrote it. Nothing was changed.",
        ),
    ),
    **_conditions(
        "control",
        JOB_UNKNOWN=("There is no job {job!r} in {storage}.", "See: rekindle list --storage {storage}"),
        JOB_ID_UNKNOWN=("No job of this server has the id {id!r}.", "See the ids: GET /v1/jobs/overview"),
        JOB_NOT_RUNNING=("The job {job!r} is not running ({state}).", "Start it: rekindle run JOBFILE"),
        JOB_RUNNING=("The job {job!r} is running.", "Stop it first: rekindle stop {job}"),
        JOB_CHANGED=(
            "The job {job!r} has run since it was looked at. Nothing was deleted.",
            "Look again: the same command, while the job does not run.",
        ),
        JOB_ALREADY_RUNNING=(
            "The job {job!r} is already running (run {run}, process {pid} on {host}).",
            "Stop it first: rekindle stop {job}",
        ),
        COPY_NOT_AT_REST=(
            "The job {job!r} in {storage} is not known to be at rest: {reason}.",
            (
                "Start it where it is, and stop it (rekindle run JOBFILE, rekindle stop {job}); or copy it on "
                "the machine on which it ran."
            ),
        ),
        COPY_SOURCE_CHANGED=(
            "The job {job!r} in {storage} was not at rest while it was copied: it was started, changed or deleted.",
            "The copy is not a job. To move the job, stop it and run the same command again.",
        ),
        COPY_TARGET_TAKEN=(
            "There is a job {job!r} in {storage} already.",
            "If it is your copy, that is all. Else copy elsewhere, or: rekindle forget {job} --storage {storage}",
        ),
        SHADOW_ORIGINAL_UNKNOWN=(
            "Rekindle cannot find out what job {job!r} has committed since that checkpoint: {reason}.",
            (
                "Take a savepoint now (rekindle savepoint {job}), and start a shadow from it. If the job deletes its "
                "checkpoints faster than they can be read, let it keep more: checkpoint.retained."
            ),
        ),
        SHADOW_NOTHING_TO_COMPARE=(
            "No sink of job {job!r} can be compared with a shadow: {reasons}.",
            (
                "Start the shadow with the names and kinds of sinks that the job runs with, the targets included. See "
                "the kinds whose rows can be read: rekindle docs shadow#sinks"
            ),
        ),
        SHADOW_COLUMN_UNKNOWN=(
            "No sink that is compared has the column {column!r}.",
            "Give --key and --ignore columns of the rows that the sinks get: {columns}.",
        ),
        SHADOW_NOT_FINISHED=(
            "The shadow of job {job!r} was canceled, so nothing was compared.",
            "Start a new one. To delete what it has written: rekindle dispose {folder}",
        ),
        COPY_OCCUPIED=(
            "A job cannot be copied to {place}: {found} is there.",
            (
                "Copy to another storage, or delete the folder. An unfinished copy is deleted by: "
                "rekindle storage check PATH --repair"
            ),
        ),
        COPY_OVERTAKEN=(
            "This copy of job {job!r} stopped: another command has taken it over or removed it.",
            "Wait for the other command. If none is running, run this one again.",
        ),
        COPY_UNFINISHED=(
            "The job {job!r} in {storage} is an unfinished copy of the one in {source}.",
            (
                "Finish it: rekindle storage copy {source} {job} {storage}. Or delete it: "
                "rekindle storage check {storage} --repair"
            ),
        ),
        DRIVER_FENCED=(
            "Run {run} of job {job!r} stopped: run {newer} has taken over.",
            "Nothing to do. One driver runs a job at a time.",
        ),
        REQUEST_STALE=(
            "The request was meant for run {run}, which has ended.",
            "If you still want it, ask again.",
        ),
        REQUEST_NOT_FOUND=(
            "There is no request {request!r} of the job {job!r}: an answer is kept for an hour.",
            "See its outcome with: rekindle events {job}",
        ),
        REQUEST_TIMED_OUT=(
            "No answer within {seconds} s; the request stays.",
            "Look again with: rekindle status {job}",
        ),
        CANCEL_TIMED_OUT=(
            "The driver of job {job!r} (process {pid} on {host}) has not answered the cancel within {seconds} s.",
            "The request stays. If rekindle status {job} says SILENT: kill -9 {pid} on {host}, and run the job again.",
        ),
        ANSWER_FORGOTTEN=(
            "The answer was deleted before it was read: more than a minute passed between two looks.",
            "See its outcome with: rekindle status {job}",
        ),
        ADOPT_JOB_HAS_RUN=(
            "The job {job!r} has run in {storage}: it resumes from its own last checkpoint.",
            "Adopt elsewhere or under another name; or give up what it has: rekindle forget {job} --storage {storage}",
        ),
        ADOPT_SAVEPOINT_GONE=(
            "The job {job!r} in {storage} has not run yet, and the savepoint {path}, from which it begins, is gone.",
            "Give up what it has, and adopt each of its queries again: rekindle forget {job} --storage {storage}",
        ),
        ADOPT_OVERTAKEN=(
            "Another command has adopted a query for the job {job!r} in {storage} meanwhile, or has started it.",
            "Run this command again: it adds its query to what was adopted. Nothing was changed.",
        ),
        STOP_REFUSED=("The job {job!r} is already {state}.", "Wait for it: rekindle status {job}"),
        BATCH_VERB_REFUSED=(
            "The job {job!r} runs in batch mode, where there is no {verb}: everything is committed at its end.",
            "While it runs, wait for its end, or: rekindle cancel {job}. The next run keeps tasks that have finished.",
        ),
        STOP_FAILED=(
            "The stop was given up and the job continues: {reason}",
            "See the cause in: rekindle status {job}; then ask again. After a signal it is asked for again by itself.",
        ),
        DRAIN_FAILING=(
            "The job {job!r} is not drained yet, because task {task} fails again and again: {reason}",
            "The drain stays in force and continues once the cause is gone. To give it up: rekindle cancel {job}",
        ),
        STOP_FAILED_AFTER_SAVEPOINT=(
            "A savepoint was made at {savepoint}, but stopping failed: {reason}",
            "The savepoint is consistent. Start from it: rekindle run JOBFILE --from {savepoint}",
        ),
        CHECKPOINT_FAILED=("Checkpoint {checkpoint} failed: {reason}", "See: rekindle checkpoints {job}"),
        CHECKPOINT_REFUSED=("No checkpoint can be taken now: {reason}", "Try again when the job is RUNNING."),
        SAVEPOINT_FAILED=("The savepoint could not be written to {path}: {reason}", "Choose another directory."),
        SAVEPOINT_WITHOUT_CHECKPOINT=(
            "The job {job!r} is not running ({state}) and has no checkpoint that could be copied.",
            "Start it, and make the savepoint while it runs: rekindle run JOBFILE",
        ),
        CHECKPOINT_NOT_COMMITTED=(
            "Checkpoint {checkpoint} of job {job!r} has rows that its sinks have not committed yet.",
            "Start the job, which commits them first, and stop it: rekindle run JOBFILE",
        ),
        SAVEPOINT_TARGET_EXISTS=("{path} is not empty.", "Choose a new directory."),
        CHECKPOINT_IN_USE=(
            "Checkpoint {checkpoint} is the one job {job!r} would resume from.",
            "To delete the whole job: rekindle forget {job}",
        ),
        CHECKPOINT_NEWEST=(
            "Checkpoint {checkpoint} is the newest of job {job!r}: sinks may still have to commit what it names.",
            "Forget it once the job has completed another one, or forget the whole job.",
        ),
        CHECKPOINT_NOT_KNOWN=(
            "There is no checkpoint {checkpoint} of job {job!r}; it may have been deleted.",
            "See: rekindle checkpoints {job}",
        ),
        RUN_UNKNOWN=("There is no run {run} of job {job!r}.", "See: rekindle runs {job}"),
        REQUEST_UNKNOWN=(
            "This server has no request {request!r} to job {job!r}.",
            "Check the id. A server forgets its requests when it is started again; if so, make the request again.",
        ),
        REQUEST_FAILED=("The request could not be carried out: {reason}", "See the log of the server."),
        ADDRESS_UNKNOWN=("There is nothing at {method} {path}.", "See /openapi.json, or: rekindle docs rest"),
        ACTIONS_OFF=("This server only reads.", "Start it with --allow-actions, or use the command line."),
        TOKEN_WRONG=(
            "The request has no token, or a wrong one.",
            "Send it as 'Authorization: Bearer TOKEN', as 'X-Rekindle-Token: TOKEN', or as the password of any user.",
        ),
        HOST_REFUSED=(
            "The request is for the host {host!r}, which is not a name of this server.",
            "Use the address it printed, or start it with --allowed-host {host}.",
        ),
        ORIGIN_REFUSED=(
            "The request comes from a page of another site: {origin}.",
            "Use the pages of this server, or a program that is no browser.",
        ),
        CANCELED_MEANWHILE=("The job {job!r} was canceled meanwhile.", "Nothing to do."),
    ),
    **_conditions(
        "sink",
        SINK_TARGET_INVALID=(
            "Sink {sink!r} cannot write to {target}: {reason}",
            "Correct the target, or see that its server runs and lets this user in. Then run again.",
        ),
        SINK_SCHEMA_MISMATCH=(
            "Sink {sink!r}: the rows do not fit {target}: {reason}",
            "Change the task's columns, or the table; with Delta and Iceberg merge_schema=True adds columns to it.",
        ),
        ROWS_UNWRITABLE=(
            "Spark cannot write such rows into {output}: {reason}",
            "Change the columns of the task, or partition_by= and options= of its sink. Run again: nothing is lost.",
        ),
        SINK_MESSAGE_TOO_LARGE=(
            "Sink {sink!r}: a message is too large for {target}: {reason}",
            (
                "Raise max.message.bytes of the topic, and message.max.bytes in the sink's options=. Then run again: "
                "the job continues where it is. A row that is not prepared yet can also be made smaller in the task."
            ),
        ),
        SINK_PARTITION_UNKNOWN=(
            "Sink {sink!r}: the partition of {target} for some rows of a batch is not certain: {reason}",
            "Clean that column in the task, or partition the table by another one.",
        ),
        TARGET_TAKEN=(
            "Sink {sink!r}: {target} belongs to another job, {owner} in {storage}, since {since}.",
            "Choose another target. If both jobs are to write their rows there: --allow-shared-target.",
        ),
        SINK_REWIND_FAILED=(
            "Sink {sink!r} cannot go back to checkpoint {checkpoint}: {reason}",
            "Correct its target yourself, and start from the same checkpoint with --allow-sink-ahead.",
        ),
        SINK_STAGING_LOST=(
            "Sink {sink!r}: {path} was prepared, but now it is neither there nor in the target.",
            (
                "Find out what has removed it: not this job. Then go back to a checkpoint before this one, with "
                "--from CHECKPOINT --rewind-sinks. Where a sink cannot go back, use --allow-sink-ahead instead: what "
                "sinks have committed since comes twice. If this was the first one, begin again: rekindle forget JOB"
            ),
        ),
        SINK_SERVER_FAILED=(
            "Sink {sink!r}: {server} failed: {reason}",
            "Check that the server runs and that this user may write there. The next run commits what is prepared.",
        ),
        SINK_ROWS_REFUSED=(
            "Sink {sink!r}: {server} refuses rows: {reason}",
            (
                "Let the table take them, or correct them in the task if they are not prepared yet. Then run again: "
                "nothing is lost, and what is prepared is committed first."
            ),
        ),
        SINK_COMMIT_FAILED=(
            "Sink {sink!r} could not commit checkpoint {checkpoint}: {reason}",
            "Fix the cause: the data is prepared. A job that still runs tries again by itself; else the next run does.",
        ),
        SINK_READ_BACK_FAILED=(
            "Sink {sink!r}: its committed rows cannot be read back: {reason}",
            (
                "Check that the server runs and that this user may read there. See how rows are found: "
                "rekindle docs shadow#sinks"
            ),
        ),
        SINK_FINISH_FAILED=("Sink {sink!r} failed in finish(): {reason}", "Fix the cause; run again."),
        SINK_COMMITTABLE_INVALID=(
            "Sink {sink!r} returned a committable that is not JSON: {reason}",
            "Return dicts of strings, numbers, lists, booleans and null.",
        ),
        PERMIT_REQUIRED=(
            "Sink {sink!r} was asked to commit without a permit for its checkpoint.",
            "Only a completed checkpoint commits; do not call commit() yourself.",
        ),
    ),
    **_conditions(
        "job",
        START_FAILED=(
            "The start of job {job!r} failed: {reason}",
            "Fix the cause and start it again. See the traceback: {trace}.",
        ),
        DRIVER_FAILED=(
            "The driver of job {job!r} failed: {reason}",
            (
                "Fix the cause and run again: it resumes after its last recorded batches. See the traceback: rekindle "
                "logs {job}."
            ),
        ),
        TASK_FAILED=(
            "Task {task!r} failed: {reason}",
            "Fix the cause. A job that still runs tries again by itself; one that has ended resumes when it is run.",
        ),
        RESTARTS_EXHAUSTED=(
            "Task {task!r} failed, and no attempt is left of {attempts}; the last cause: {reason}",
            "Fix the cause and run again: it resumes after its last recorded batches.",
        ),
        CHECKPOINTS_FAILING=(
            "{failures} checkpoints failed in a row, more than checkpoint.tolerable_failures={tolerable}: {reason}",
            "Fix the cause. A job that still runs tries again by itself; one that has ended resumes when it is run.",
        ),
        FLUSH_FAILED=(
            "The flush of {path} failed: {reason}",
            "Fix the cause and try again: the checkpoint is unchanged.",
        ),
        QUERY_DIED=("The query of task {task!r} ended by itself: {reason}", "Fix the cause and run again."),
        JOB_CANCELED=(
            "The job {job!r} was canceled in run {run}: it has ended without a checkpoint.",
            "Run it again: it resumes after its last recorded batches.",
        ),
        SPARK_DIED=(
            "Spark is gone: {reason}",
            "A job that still runs continues with a new session by itself; one that has ended resumes when it is run.",
        ),
    ),
    **_conditions(
        "protocol",
        ILLEGAL_EVENT=(
            "{event} is illegal while {subject} is {state}; legal: {legal}.\nStory:\n{story}",
            "This is a bug in Rekindle. Please report it with the lines above.",
        ),
        INVARIANT_BROKEN=(
            "{invariant}: {detail}\nStory:\n{story}",
            "This is a bug in Rekindle. Please report it with the lines above.",
        ),
    ),
}
"""Code → condition. The only place where a code, its sentence and its next step are written."""

NEXT_STEPS: dict[str, dict[str, str]] = {
    "JOB_NOT_RUNNING": {
        "LOST": "Its driver died without recording a result. Start it, and it resumes: rekindle run JOBFILE",
        "FAILED": "See why: rekindle status {job}. Once that is mended, start it: rekindle run JOBFILE",
        "FINISHED": (
            "It is complete: all of its input is read and committed. To run it from a checkpoint again: rekindle run "
            "JOBFILE --from PATH (see: rekindle checkpoints {job})"
        ),
        "DRAINED": (
            "It is complete: its windows are emitted and committed. To continue it from before its flush: rekindle run "
            "JOBFILE --allow-drained"
        ),
    },
}
"""Next steps that depend on the state of the job, where an error has it as its parameter `state`."""

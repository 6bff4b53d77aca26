"""The parts of a job, and the changes of it that a checkpoint survives. Pure: no Spark, clock, thread, file or log."""

"""Pure: what a job consists of, and which changes of it a checkpoint survives. No Spark, clock, thread, file or log."""

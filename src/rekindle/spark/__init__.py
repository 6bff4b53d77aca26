"""The data work of a job, done by Spark: the engine, its inputs, plans, queries, batches and outputs."""

"""The shipped test kit: tools that play a job without Spark, and check that what it did was right."""

"""The shipped test kit: what plays a job without Spark, and checks that what it did was right."""

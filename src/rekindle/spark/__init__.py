"""The only package that imports pyspark: the data work, done by Spark."""

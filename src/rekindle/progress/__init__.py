"""Tools to read, copy, cut and delete the files of a streaming query's checkpoint folder, without Spark."""

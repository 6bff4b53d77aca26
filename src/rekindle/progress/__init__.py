"""Read, copy, cut and delete what a streaming query of Spark keeps in its checkpoint folder, without Spark."""

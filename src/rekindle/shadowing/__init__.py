"""A shadow: the new code of a job beside the job itself, over the same inputs, and the rows of both compared."""

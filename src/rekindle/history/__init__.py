"""The history of a job, by which it is watched: events, checkpoints and rates, over all of its runs."""

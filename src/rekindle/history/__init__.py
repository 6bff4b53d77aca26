"""What is kept of a job to watch it by: events, checkpoints and rates, over all of its runs, in its storage."""

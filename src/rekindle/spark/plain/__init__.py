"""Streaming queries without a job: flushing one, and adopting its checkpoint."""

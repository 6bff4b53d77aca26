"""Preludes: the history of a task computed as a batch, before its query streams (docs/backlog.md)."""

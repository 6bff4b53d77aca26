"""The job's storage: the only interface between a running job and everything else (docs/storage.md)."""

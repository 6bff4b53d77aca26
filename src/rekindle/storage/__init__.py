"""The job's storage: the only interface between a running job and everything else (DESIGN 4 and 10)."""

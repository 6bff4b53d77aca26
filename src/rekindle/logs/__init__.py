"""The log of a driver: what the loggers ``rekindle.*`` and Spark say, beside its run in the storage (docs/logs.md)."""

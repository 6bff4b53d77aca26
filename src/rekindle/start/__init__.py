"""The start of a run: from a definition and a storage to a driver that can loop. It asks an engine, not Spark."""

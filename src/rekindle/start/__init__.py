"""Start a run: from a definition and a storage to a driver that can loop. Knows no Spark: it asks an engine."""

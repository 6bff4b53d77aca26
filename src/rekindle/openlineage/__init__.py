"""What a job reads and writes, and how its runs go, as events of OpenLineage (docs/openlineage.md)."""

"""Events of OpenLineage on what a job reads and writes, and on how its runs go (docs/openlineage.md)."""

"""`Jdbc`: a table that grows, read by a column that rises. Importing it does not import PySpark."""

from rekindle.sources.jdbc.source import Jdbc

__all__ = ["Jdbc"]

"""The session: making one, what it must be set to, its JVM, whether that is alive, and what its exceptions mean."""

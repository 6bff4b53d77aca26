"""The session: making one, what it must be set to, the JVM that it lives in, and that the JVM is alive."""

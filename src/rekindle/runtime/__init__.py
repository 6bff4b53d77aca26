"""The driver: it carries out the commands of the protocol, and reports events to it. This package has no Spark."""

"""The driver: carries out what the protocol decides, and tells it what happened. No Spark in here."""

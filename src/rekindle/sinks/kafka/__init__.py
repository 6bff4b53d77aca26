"""A topic in Kafka. `sink` is the two-phase sink, `lanes` publishes in transactions, `commits` is what recovery reads.

Needs the extra ``rekindle[kafka]`` (confluent-kafka, stamina) on the driver.
"""

from rekindle.sinks.kafka.sink import Kafka

__all__ = ["Kafka"]

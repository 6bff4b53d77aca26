"""Topics of Kafka as sources: `Kafka` is what a user calls, `KafkaTopics` what continues a history."""

from rekindle.sources.kafka.source import Kafka, KafkaStream
from rekindle.sources.kafka.topics import KafkaTopics

__all__ = ["Kafka", "KafkaStream", "KafkaTopics"]

"""The clickstream stand's generator: publishes a model world to Kafka, one model day at a time."""

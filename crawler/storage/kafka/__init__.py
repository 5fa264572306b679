"""Kafka: pages, errors, new URLs and the end of a crawl as messages in topics.

    messages  the JSON of each message, its key and its partition
    schemas/  JSON Schema of each kind of message
    producer  messages on their way to the brokers, and their delivery reports
    sink      the sink: SINKS="kafka://host:9092"

docs/streams.md describes topics and fields. Crawls read Kafka too: -a seeds=kafka://….
"""

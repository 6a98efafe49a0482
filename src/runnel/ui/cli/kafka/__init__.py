"""The commands that talk to a Kafka cluster, and what they share. The only home of librdkafka, imported late.

topic, produce, consume, group, status     a command each

connect     where the cluster is, and clients for it
problems    what went wrong there, as one of our kinds of error with the next step
offsets     topics with their partitions, and offsets of many partitions at once
places      `beginning`, `end`, `-10`, `15m`, `2026-11-19T20:00`: where to start and stop reading (pure)
formats     records as lines and as JSON, both ways (pure)
"""

"""The Kafka door.

versions    which versions of which APIs are offered
"""

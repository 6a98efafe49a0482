"""Objects: named, write-once bytes.

seam      what callers may rely on
memory    a dictionary, for tests and laptops
files     a directory with fsync
s3        S3, GCS and Azure through obstore
faulty    any of them, misbehaving from a seed
cache     the most recently used ones in memory
"""

from runnel.world.objects.seam import Body, Buffer, ObjectFacts, ObjectStore

__all__ = ["Body", "Buffer", "ObjectFacts", "ObjectStore"]

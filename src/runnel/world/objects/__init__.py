"""Objects: named, write-once bytes.

seam      what callers may rely on
open      from an address to a store; the check at start
address   memory://, file:///…, s3://…, gs://…, az://… taken apart

memory    a dictionary, for tests and simulation
files     a directory with fsync: file_writing, file_reading
s3        a bucket through obstore: bucket (how it is reached), bucket_errors (what an answer means),
          bucket_tries, hedging

faulty    any of them, misbehaving from a seed
latency   any of them, as slow as a cloud
counting  any of them, with requests and bytes counted
cache     objects and parts of them in memory, for who reads them again

names, ranges, bodies   what all of them share
"""

from runnel.world.objects.seam import Body, Buffer, ObjectFacts, ObjectStore

__all__ = ["Body", "Buffer", "ObjectFacts", "ObjectStore"]

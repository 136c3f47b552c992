"""Work on many machines, by Ray (extra ``ray``): encoding documents, and fits on documents in shards.

with bulk.Cluster("auto") as cluster:
    things.index("photos/", workers=cluster)                               other machines encode, this one writes
    fitted = calibration.fit_shards(spec, shards, queries, mapped=cluster.map)
"""

from isthmus.bulk.cluster import Cluster
from isthmus.bulk.encoder import ClusterEncoder

__all__ = ["Cluster", "ClusterEncoder"]

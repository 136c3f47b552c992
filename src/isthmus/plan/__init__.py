"""Estimates before anything is built: memory, disk, time and machines for a number of documents.

>>> estimates = plan(Workload(documents=10_000_000, dim=512))
>>> [estimate.engine for estimate in estimates][:3]
['folder exact', 'folder ivf-sq8', 'folder ivf-rabitq']
"""

from isthmus.plan.constants import Constants, measured
from isthmus.plan.engines import ENGINES, Estimate, plan
from isthmus.plan.workload import Workload

__all__ = ["ENGINES", "Constants", "Estimate", "Workload", "measured", "plan"]

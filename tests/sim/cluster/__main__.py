"""`python -m tests.sim.cluster [-q] SEED...`: replay seeds of the simulation, and tell what happens."""

import sys

from tests.sim.cluster.run import simulate
from tests.sim.seeds import replay

sys.exit(replay(simulate))

"""`python -m tests.raft.sim [-q] SEED...`: replay seeds of the simulation, and tell what happens."""

import sys

from tests.raft.sim.run import simulate
from tests.sim.seeds import replay

sys.exit(replay(simulate))

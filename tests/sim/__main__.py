"""`python -m tests.sim [-q] SEED...`: replay seeds of the simulation, and tell what happens."""

import sys

from tests.sim.run import simulate
from tests.sim.seeds import replay

sys.exit(replay(simulate))

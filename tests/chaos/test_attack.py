"""An API, a simulator and a collector under attack: alive, not twice as large, right afterwards.

Attackers send random bytes, huge frames and forged numbers and leave connections half open; between
the collector and its exchange stands somebody who does the same. ``make chaos-attack`` does so for
a minute; ``SEED=…`` repeats what is drawn.
"""

import json
import os
import random
from pathlib import Path

from tests.security.attacked_fleet import AttackedFleet, check

SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 25)


async def test_after_an_attack_everything_stands(tmp_path: Path) -> None:
    report = await AttackedFleet(tmp_path, SEED).run(SECONDS)
    print(json.dumps({"seed": SEED, "seconds": SECONDS, **report}))
    assert len(report["attacks"]) >= 12, "hardly anything was tried"
    check(report)

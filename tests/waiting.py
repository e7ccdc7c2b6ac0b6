"""How long a test waits for what must come.

Only a test that would fail waits as long. On a busy machine everything else may take a while, and a
test of what happens is not a test of how fast the machine is.
"""

PATIENCE_S = 120.0

"""How long a test waits for what ends by an event. It decides nothing: a test that ends by it has
met something that hangs.
"""

from __future__ import annotations

PATIENCE_SECONDS = 240
"""Long enough for a machine that is ten times slower and busy besides, and less than what a whole
test may take.
"""

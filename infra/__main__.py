"""The program that both engines run: load and compose. A rehearsal sets the global REHEARSAL as it runs this module."""

from infra.compose import compose
from infra.registering import end_quietly, quiet_collector
from stackfile.settings import load

end_quietly()
with quiet_collector():
    compose(load(rehearsal=globals().get("REHEARSAL", False)))

"""The program that both engines run: load and compose. A rehearsal sets the global REHEARSAL as it runs this module."""

from inferplan.infra.compose import compose
from inferplan.infra.registering import end_quietly, quiet_collector
from inferplan.stackfile.settings import load

end_quietly()
with quiet_collector():
    compose(load(rehearsal=globals().get("REHEARSAL", False)))

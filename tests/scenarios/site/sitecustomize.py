"""Found on PYTHONPATH by every Python of a scenario under the Pulumi CLI, the program's own
included.
"""

from tests.scenarios.deadlines import shorten

shorten()

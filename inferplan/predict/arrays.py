"""numpy, which comes with the extra `predict`: without it, importing this raises UnknownSpeedError
with what to install.
"""

from inferplan.predict.configurations import UnknownSpeedError
from inferplan.predict.library import INSTALL

try:
    import numpy as np
except ImportError as error:
    raise UnknownSpeedError(
        "numpy is not installed, so no trace is read and nothing is simulated",
        INSTALL,
    ) from error

__all__ = ["np"]

"""The validation errors of a stack as an exception that both engines understand. Unlike `errors`,
it needs the Pulumi SDK.
"""

import pulumi

from inferplan.documents.errors import InvalidStack


class StackRunError(InvalidStack, pulumi.RunError):
    """Raised while a program runs, for a stack that does not pass validation; Pulumi prints its
    text and no traceback.
    """

"""The budget of a stack. `review` compares it with a sum of list prices; nothing is priced here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.spec import Spec


class BudgetSpec(Spec):
    """The most that a stack may cost, judged by the most that its pools may grow to."""

    monthly_usd: Annotated[int, Field(ge=0, le=100_000_000)]
    """US dollars a month at list prices, without what is paid by use."""

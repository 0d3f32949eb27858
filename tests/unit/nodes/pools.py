"""Valid node pools for property tests."""

from __future__ import annotations

from hypothesis import strategies as st
from pydantic import TypeAdapter

from inferplan.components.pools import NodePoolSpec
from inferplan.hardware.accelerators import accelerators
from inferplan.hardware.machines import machines_of

_POOL = TypeAdapter(NodePoolSpec)
_LABEL = st.from_regex(r"[a-z]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
_TAINT = st.fixed_dictionaries(
    {"key": _LABEL, "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])},
    optional={"value": _LABEL},
)


def _shape(accelerator: str | None) -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries(
        {
            "cpu": st.integers(1, 10**6).map(lambda milli: f"{milli}m"),
            "memory": st.integers(1, 2**32).map(lambda kibi: f"{kibi}Ki"),
            "accelerators": st.integers(1, 16) if accelerator else st.just(0),
        },
        optional={
            "hugepages2Mi": st.integers(1, 10**5).map(lambda pages: f"{2 * pages}Mi"),
            "ephemeralStorage": st.integers(1, 10**4).map(lambda gibi: f"{gibi}Gi"),
        },
    )


@st.composite
def pools(draw: st.DrawFn):
    """A valid pool of either provider."""
    accelerator = draw(st.none() | st.sampled_from(sorted(accelerators())))
    named = st.sampled_from([row.name for row in machines_of(accelerator)])
    provider = draw(st.sampled_from(["existing", "simulated"]))
    fields: dict = {"provider": provider, "nodes": draw(st.integers(1, 5))}
    if accelerator is not None:
        fields["accelerator"] = accelerator
    if draw(st.booleans()):
        fields["instanceType"] = draw(
            named | _shape(accelerator) if provider == "existing" else named
        )
    if draw(st.booleans()):
        fields["taints"] = draw(
            st.lists(_TAINT, max_size=3, unique_by=lambda taint: (taint["key"], taint["effect"]))
        )
    if draw(st.booleans()):
        fields["runtimeClass"] = draw(st.none() | _LABEL)
    if provider == "existing" and draw(st.booleans()):
        fields["nodeSelector"] = draw(st.dictionaries(_LABEL, _LABEL, min_size=1, max_size=2))
    if provider == "simulated" and draw(st.booleans()):
        fields["zones"] = draw(st.lists(_LABEL, min_size=1, max_size=3, unique=True))
    return _POOL.validate_python(fields)

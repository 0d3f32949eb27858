"""One vocabulary over the metrics of every engine: terms by namespace and model, as recording
rules.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from inferplan.tables import table

PREFIX = "inferplan:"
BY = "namespace, model"
_QUANTILES = {"p50": 0.5, "p95": 0.95}
_WINDOW = "5m"
# By form, the function over the pods of a model, the value of one series, and the name of the rule.
_FORMS = {
    "sum": ("sum", "{}", "sum"),
    "mean": ("avg", "{}", "mean"),
    "rate": ("sum", f"rate({{}}[{_WINDOW}])", f"rate{_WINDOW}"),
}
_TABLE = "components/monitoring/vocabulary.toml"
_OWN = ("metrics", "needs", "bounds")
Rule = Mapping[str, Any]


@cache
def engine_metrics(engine: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the tables `metrics`, `needs`, `bounds` and `terms` of `engine`, with those of the
    engine that it extends.
    """
    own = table(f"components/serving/{engine.replace('-', '_')}/metrics.toml")
    base = engine_metrics(own["extends"]) if "extends" in own else {}
    terms = {
        term: [value] if isinstance(value, str) else value
        for term, value in own.get("terms", {}).items()
    }
    inherited: Mapping[str, Any] = base.get("terms", {})
    union = {
        term: list(dict.fromkeys([*inherited.get(term, ()), *terms.get(term, ())]))
        for term in (*inherited, *terms)
    }
    return {**{key: {**base.get(key, {}), **own.get(key, {})} for key in _OWN}, "terms": union}


def kept_metrics(engine: str) -> str:
    """Return the pattern of the series of `engine` that rules, panels or scalers read; a histogram
    is counted only for objectives.
    """
    pinned = engine_metrics(engine)
    return "|".join(
        f"{name}_{'(bucket|count)' if name in pinned['bounds'] else 'bucket'}"
        if kind == "histogram"
        else name
        for name, kind in pinned["metrics"].items()
    )


def sources_of(term: str, engines: Collection[str]) -> list[str]:
    """Return the selectors of the metrics that answer `term`, each once: `name` or
    `name{matchers}`.
    """
    return list(
        dict.fromkeys(
            each
            for engine in sorted(engines)
            for each in engine_metrics(engine)["terms"].get(term, ())
        )
    )


def selected(selector: str, matchers: str, suffix: str = "") -> str:
    """Return `selector` with further `matchers`, and `suffix` on the name of its metric."""
    name, _, rest = selector.partition("{")
    return f"{name}{suffix}{{{','.join(part for part in (matchers, rest.rstrip('}')) if part)}}}"


def together(parts: Sequence[str]) -> str:
    """Return the union of `parts`. Series of two metrics with the same labels would be one, so all
    but the first get a label.
    """
    return " or ".join(
        [
            parts[0],
            *(
                f'label_replace({each}, "source", "{number}", "", "")'
                for number, each in enumerate(parts[1:], 2)
            ),
        ]
    )


def factor_of(source: str) -> int:
    """Return the divisor that makes seconds of a value of `source`."""
    return 1000 if source.partition("{")[0].endswith("_ms") else 1


def rule(name: str, expression: str, **labels: str) -> Rule:
    """Return a recording rule of the vocabulary."""
    return {
        "record": f"{PREFIX}{name}",
        "expr": expression,
        **({"labels": labels} if labels else {}),
    }


def vocabulary(namespace: str, engines: Collection[str], *, counted: bool = False) -> list[Rule]:
    """Return the recording rules of every term that one of `engines` answers, of the pods, and of
    the gateway if that counts its answers.
    """
    rows, where = table(_TABLE), f'namespace="{namespace}"'
    own = rows["pods"] | (rows["gateway"] if counted else {})
    terms = [
        each
        for term, row in rows["terms"].items()
        for each in _rules(term, row["form"], where, engines)
    ]
    return [
        *terms,
        *(rule(name, expression.replace("WHERE", where)) for name, expression in own.items()),
    ]


def _rules(term: str, form: str, where: str, engines: Collection[str]) -> Iterator[Rule]:
    where = f'{where},model!=""'
    sources = sources_of(term, engines)
    if not sources:
        return
    if form == "quantiles":
        for name, quantile in _QUANTILES.items():
            yield rule(
                f"{term}:{name}", " or ".join(_quantile(each, where, quantile) for each in sources)
            )
    else:
        function, value, name = _FORMS[form]
        values = together([value.format(selected(each, where)) for each in sources])
        yield rule(f"{term}:{name}", f"{function} by ({BY}) ({values})")


def _quantile(source: str, where: str, quantile: float) -> str:
    # Without requests a quantile is NaN, which the comparison leaves out.
    buckets = f"sum by ({BY}, le) (rate({selected(source, where, '_bucket')}[{_WINDOW}]))"
    promql = f"histogram_quantile({quantile:g}, {buckets})"
    return f"({promql} / {factor_of(source)} > 0)" if factor_of(source) != 1 else f"({promql} > 0)"

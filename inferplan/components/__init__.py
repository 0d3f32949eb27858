from typing import Any

if __name__ != "inferplan.components":
    # The link components/ at the top of the repository is for readers: a module imported through it
    # would exist twice.
    raise ImportError(
        f"{__name__} is not a package of its own. Import inferplan.components instead."
    )


def __getattr__(name: str) -> Any:
    """Return a public component, or a type of its inputs. They are imported at first use, since a
    stack needs none of them.
    """
    if name[:1].isupper():
        from inferplan.components.public.package import exports

        if name in exports():
            return exports()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
